// Copies to host memory and back, which run while later nodes run.
//
//   %h.host, %h.sent = copy_to_host(%h) : host f32[8], token[]
//   %h.kept = wait(%h.host, %h.sent, %h) : host f32[8]
//   ...
//   %h.back, %h.got = copy_to_device(%h.kept) : f32[8], token[]
//   %h.again = wait(%h.back, %h.got, %h.kept) : f32[8]
//
// The result of a copy is complete after a wait for its token. The wait also reads the operand of
// the copy, so that its bytes stay live until then.

#include "ir/ops/families.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> copied(const InferContext &c, Memory from, Memory to) {
  const Type &x = c.operand(0);
  if (x.dtype == DType::Token || x.memory != from)
    return c.error("expects a tensor in the {0}'s memory, got '{1}'",
                   from == Memory::Host ? "host" : "device", x.str());
  return TypeList{x.in(to), Type(DType::Token, {})};
}
llvm::Expected<TypeList> inferToHost(const InferContext &c) {
  return copied(c, Memory::Device, Memory::Host);
}
llvm::Expected<TypeList> inferToDevice(const InferContext &c) {
  return copied(c, Memory::Host, Memory::Device);
}

llvm::Expected<TypeList> inferWait(const InferContext &c) {
  if (c.operand(0).dtype == DType::Token)
    return c.error("expects the copied tensor as its first operand, got '{0}'", c.operand(0).str());
  if (c.operand(1) != Type(DType::Token, {}))
    return c.error("expects a token second, got '{0}'", c.operand(1).str());
  return TypeList{c.operand(0)};
}

// The link's time is separate: see Target::transferSeconds.
Cost costTransfer(const OpCall &) { return {}; }

} // namespace

void registerTransferOps(OpRegistry &r) {
  r.add({{.name = "copy_to_host",
          .doc = "Starts to copy the operand to the host's memory. The copy is complete after a "
                 "wait for its token.",
          .operands = "x",
          .results = "host copied",
          .traits = kTransfer,
          .effect = Effect::Ordered,
          .infer = inferToHost,
          .cost = costTransfer,
          .examples = {"copy_to_host(f64[2, 3])"}},
         {.name = "copy_to_device",
          .doc = "Starts to copy the operand from the host's memory. The copy is complete after a "
                 "wait for its token.",
          .operands = "host",
          .results = "x copied",
          .traits = kTransfer,
          .effect = Effect::Ordered,
          .infer = inferToDevice,
          .cost = costTransfer,
          .examples = {"copy_to_device(host f64[2, 3])"}},
         {.name = "wait",
          .doc = "Waits until the first operand, a copy that was started together with the token, "
                 "is complete, and gives it. The other operands, which the copy reads, keep their "
                 "bytes until then. With the token of a send, the first operand is what is sent, "
                 "and the wait ends when it was received.",
          .operands = "x token held...",
          .results = "y",
          .traits = kView | kWait,
          .effect = Effect::Ordered,
          .infer = inferWait,
          .examples = {"wait(host f64[2, 3], token[], f64[2, 3])"}}});
}

} // namespace isthmus
