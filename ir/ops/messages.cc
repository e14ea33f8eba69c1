// Messages between devices, which go their way while later nodes run.
//
//   %h = ... : f32[8] @cpu:0
//   %h.sent = send(%h) {tag = 3, to = "cpu:1"} : token[] @cpu:0
//   %h.in, %h.got = receive(%h.sent) {dims = [8], from = "cpu:0", tag = 3} : f32[8], token[] @cpu:1
//   %h.there = wait(%h.in, %h.got) : f32[8] @cpu:1
//   ...
//   %h.free = wait(%h, %h.sent) : f32[8] @cpu:0
//
// The order of the graph is one order of all devices' nodes, in which each message is sent before
// it is received. Each device runs its part of the nodes in that order, so none waits for ever. A
// wait for a send holds what is sent until the receiver has it. In the program of one device a
// receive has no operand: the sender's nodes are in another program.

#include "ir/ops/families.h"
#include "ir/spelling.h"

namespace isthmus {
namespace {

llvm::Error checkEnd(const InferContext &c, llvm::StringRef attr) {
  const std::string &device = c.attrs.getString(attr);
  if (!isDeviceName(device))
    return c.error("expects '{0}' to name a device, such as \"cpu:1\", got {1}", attr,
                   quoted(device));
  if (c.attrs.getInt("tag") < 0)
    return c.error("expects a tag of 0 or more, got {0}", c.attrs.getInt("tag"));
  return llvm::Error::success();
}

llvm::Expected<TypeList> inferSend(const InferContext &c) {
  if (!c.operand(0).isPlain())
    return c.error("expects a tensor in the device's memory, got '{0}'", c.operand(0).str());
  if (llvm::Error e = checkEnd(c, "to"))
    return e;
  return TypeList{Type(DType::Token, {})};
}

llvm::Expected<TypeList> inferReceive(const InferContext &c) {
  for (const Type &t : c.operands)
    if (t.dtype != DType::Token)
      return c.error("expects the token of a send, got '{0}'", t.str());
  if (c.operands.size() > 1)
    return c.error("expects the token of one send, got {0} operands", c.operands.size());
  if (llvm::Error e = checkEnd(c, "from"))
    return e;
  const std::string &name = c.attrs.getString("dtype");
  const auto dtype = parseDType(name);
  if (!dtype || *dtype == DType::Token)
    return c.error("expects an element type, such as \"f32\", got {0}", quoted(name));
  const Ints &dims = c.attrs.getInts("dims");
  return TypeList{Type(*dtype, dims), Type(DType::Token, {})};
}

// The link's time is separate, as for copies to the host's memory.
Cost costMessage(const OpCall &) { return {}; }

const AttrDef kTag = {"tag", AttrKind::Int, std::nullopt,
                      "the number that both ends of the message have, and no other message"};

} // namespace

void registerMessageOps(OpRegistry &r) {
  r.add({{.name = "send",
          .doc = "Starts to send the operand to another device. A wait for the token holds the "
                 "operand until it was received.",
          .operands = "x",
          .results = "sent",
          .attrs = {{"to", AttrKind::String, std::nullopt, "the device that receives it"}, kTag},
          .traits = kSend,
          .effect = Effect::Ordered,
          .runsOnce = true,
          .infer = inferSend,
          .cost = costMessage,
          .examples = {"send(f64[2, 3]) {to = \"cpu:1\", tag = 0}"}},
         {.name = "receive",
          .doc = "Starts to receive a tensor from another device. It is complete after a wait for "
                 "the second result. The operand is the token of the send, if that is in the same "
                 "graph.",
          .operands = "sent?",
          .results = "x received",
          .attrs = {{"from", AttrKind::String, std::nullopt, "the device that sends it"},
                    kTag,
                    {"dims", AttrKind::IntList, std::nullopt, "the dimensions"},
                    {"dtype", AttrKind::String, Attr(std::string("f32")), "the element type"}},
          .traits = kReceive,
          .effect = Effect::Ordered,
          .runsOnce = true,
          .infer = inferReceive,
          .cost = costMessage,
          .examples = {"receive(token[]) {from = \"cpu:0\", tag = 0, dims = [2, 3], dtype = f64}"}}});
}

} // namespace isthmus
