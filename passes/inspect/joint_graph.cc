#include "passes/inspect/joint_graph.h"

#include "ir/diagnostics.h"
#include "ir/json.h"
#include "passes/plan/faults.h"
#include "passes/plan/sizes.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

using Json = nlohmann::json;
using plan::Op;
using plan::OpIndex;

// Reads one file. Keeps the first error; later steps then do nothing.
class Reader {
public:
  Reader(const Json &file, llvm::StringRef name) : json_(file), file_(name) {}

  llvm::Expected<JointGraph> run() {
    readTop();
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      readNode(i);
    starts_.resize(numNodes());
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      readCopy(i);
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      pairCopy(i);
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      link(i);
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      readOf(i);
    if (error_.empty())
      readOutputs();
    if (error_.empty())
      checkOps();
    if (!error_.empty())
      return makeError("{0}: {1}", file_, error_);
    return std::move(out_);
  }

private:
  size_t numNodes() const { return nodes_ ? nodes_->size() : 0; }

  template <typename... Args> void fail(const char *format, Args &&...args) {
    if (error_.empty())
      error_ = llvm::formatv(format, std::forward<Args>(args)...).str();
  }
  template <typename... Args> void failAt(size_t node, const char *format, Args &&...args) {
    fail("node {0}: {1}", node, llvm::formatv(format, std::forward<Args>(args)...).str());
  }

  const Json *get(const Json &object, const char *key) const {
    auto it = object.find(key);
    return it == object.end() ? nullptr : &*it;
  }

  // A whole number from 0 to `most`, or `byDefault` if the key is missing.
  uint64_t number(size_t node, const Json &object, const char *key, uint64_t byDefault,
                  uint64_t most = plan::kMostBytes) {
    const Json *v = get(object, key);
    return v ? numberIn(node, *v, key, most) : byDefault;
  }
  uint64_t numberIn(size_t node, const Json &v, const char *what, uint64_t most) {
    if (!v.is_number_unsigned() || v.get<uint64_t>() > most) {
      failAt(node, "expected '{0}' to be a whole number from 0 to {1}, found {2}", what, most,
             v.dump());
      return 0;
    }
    return v.get<uint64_t>();
  }
  double time(size_t node, const Json &object, const char *key) {
    const Json *v = get(object, key);
    if (v && v->is_number() && v->get<double>() >= 0 && v->get<double>() < 1e300)
      return v->get<double>();
    failAt(node, "expected '{0}' to be a number of microseconds, found {1}", key,
           v ? v->dump() : "nothing");
    return 0;
  }
  bool flag(size_t node, const Json &object, const char *key, bool byDefault) {
    const Json *v = get(object, key);
    if (v && !v->is_boolean())
      failAt(node, "expected '{0}' to be true or false, found {1}", key, v->dump());
    return v && v->is_boolean() ? v->get<bool>() : byDefault;
  }

  void readTop() {
    if (!json_.is_object() || !get(json_, "nodes") || !get(json_, "nodes")->is_array())
      return fail("expected a JSON object with a list 'nodes'; the format is that of joint-graph/1 "
                  "and joint-graph/2");
    std::string format = "joint-graph/1";
    if (const Json *f = get(json_, "format"))
      format = f->is_string() ? f->get<std::string>() : f->dump();
    if (format != "joint-graph/1" && format != "joint-graph/2")
      return fail("expected format 'joint-graph/1' or 'joint-graph/2', found '{0}'", format);
    isSecond_ = format == "joint-graph/2";
    if (const Json *name = get(json_, "name"); name && name->is_string())
      out_.name = name->get<std::string>();
    else
      return fail("expected a string 'name' beside 'nodes'");
    for (const char *key : {"order", "forward_outputs", "alignment"})
      if (!isSecond_ && get(json_, key))
        return fail("key '{0}' belongs to format joint-graph/2, and this file is joint-graph/1",
                    key);
    if (const Json *a = get(json_, "alignment")) {
      if (!a->is_number_unsigned() || a->get<uint64_t>() < 1 || a->get<uint64_t>() > (1u << 30))
        return fail("expected 'alignment' to be a whole number from 1 on, found {0}", a->dump());
      out_.problem.alignment = a->get<int64_t>();
    }
    if (const Json *order = get(json_, "order")) {
      if (*order == "phases")
        out_.problem.order = plan::Order::Phases;
      else if (*order == "fixed")
        out_.problem.order = plan::Order::Fixed;
      else if (*order != "free")
        return fail("expected 'order' to be free, phases or fixed, found {0}", order->dump());
    }
    nodes_ = get(json_, "nodes");
    out_.problem.ops.resize(nodes_->size());
  }

  void readNode(size_t i) {
    const Json &n = (*nodes_)[i];
    if (!n.is_object())
      return failAt(i, "expected an object, found {0}", n.dump());
    if (number(i, n, "id", ~0ull, ~0ull) != i)
      return failAt(i, "expected 'id' {0}: ids count from 0 in the order of the list", i);
    Op &op = out_.problem.ops[i];
    if (const Json *name = get(n, "name"); name && name->is_string())
      op.name = name->get<std::string>();
    op.isPinned = flag(i, n, "persistent", false);
    op.recomputable = flag(i, n, "recomputable", true);
    op.cost = time(i, n, "cost");
    const Json *phase = get(n, "phase");
    op.phase = phase && *phase == "backward" ? plan::OpPhase::Backward
               : phase && *phase == "update" ? plan::OpPhase::Update
                                             : plan::OpPhase::Forward;
    for (const char *key :
         {"workspace", "may_reuse", "overwrites", "of", "kind", "bus_us", "direction"})
      if (!isSecond_ && get(n, key))
        return failAt(
            i, "key '{0}' belongs to format joint-graph/2, and this file is joint-graph/1", key);
    op.workspace = int64_t(number(i, n, "workspace", 0));
    op.isAlternative = get(n, "of") || get(n, "kind");
    isView_.push_back(flag(i, n, "view", false));
    if (const Json *list = get(n, "out_bytes"); list && !isView_.back()) {
      if (!list->is_array())
        return failAt(i, "expected 'out_bytes' to be a list, found {0}", list->dump());
      for (const Json &bytes : *list)
        op.outputBytes.push_back(int64_t(numberIn(i, bytes, "out_bytes", plan::kMostBytes)));
    } else if (!isView_.back()) {
      if (!get(n, "bytes") && !get(n, "kind"))
        return failAt(i, "expected 'bytes', or a list 'out_bytes'; found neither");
      op.outputBytes = {int64_t(number(i, n, "bytes", 0))};
    }
    if (op.outputBytes.empty() && !isView_.back())
      op.outputBytes = {0}; // so that reads can refer to an output
    if (!sizes_.allows(op))
      failAt(i, "the sizes of all tensors together overflow 64 bits: expected at most 2^62 bytes, "
                "the largest workspace included");
  }

  // Reads `kind` and the keys that belong to it.
  void readCopy(size_t i) {
    const Json &n = (*nodes_)[i];
    const Json *kind = get(n, "kind"), *inputs = get(n, "inputs");
    Op &op = out_.problem.ops[i];
    if (!kind)
      return;
    if (*kind != "copy_start" && *kind != "copy_wait")
      return failAt(i, "expected 'kind' to be copy_start or copy_wait, found {0}", kind->dump());
    if (!inputs || !inputs->is_array() || inputs->empty())
      return failAt(i, "a copy needs an input");
    const uint64_t first = numberIn(i, (*inputs)[0], "inputs", numNodes() - 1);
    if (*kind == "copy_wait") {
      if (!error_.empty())
        return;
      if (starts_[first])
        return failAt(i, "node {0} has a wait already", first);
      starts_[first] = true;
      op.transfer = Op::Transfer::WaitOffload; // until pairCopy knows its start
      return;
    }
    const Json *direction = get(n, "direction");
    if (!direction || (*direction != "to_host" && *direction != "to_device"))
      return failAt(i, "expected 'direction' to be to_host or to_device, found {0}",
                    direction ? direction->dump() : "nothing");
    op.transfer =
        *direction == "to_host" ? Op::Transfer::StartOffload : Op::Transfer::StartPrefetch;
    op.transferTime = time(i, n, "bus_us");
    if (inputs->size() > 1)
      failAt(i, "expected one input, found {0}: a copy_start reads only the tensor that it copies",
             inputs->size());
    if (get(n, "of"))
      failAt(i, "'of' belongs to the wait of a copy");
    if (op.transfer == Op::Transfer::StartOffload)
      takeNoBytes(i);
  }

  void takeNoBytes(size_t i) {
    Op &op = out_.problem.ops[i];
    if (op.outputBytes != std::vector<int64_t>{0})
      failAt(i, "expected no bytes of its own, as a wait or a copy to_host");
    if (op.startsTransfer())
      op.outputBytes.clear();
  }

  const Op &firstInput(size_t i) const {
    return out_.problem.ops[(*nodes_)[i]["inputs"][0].get<size_t>()];
  }

  // Checks that the start and the wait of a copy match, once all kinds are known.
  void pairCopy(size_t i) {
    Op &op = out_.problem.ops[i];
    const bool hasOf = get((*nodes_)[i], "of");
    if (op.startsTransfer() && !starts_[i])
      return failAt(i, "a copy_start has no copy_wait");
    if (op.transfer != Op::Transfer::WaitOffload)
      return;
    takeNoBytes(i);
    const Op &start = firstInput(i);
    if (!start.startsTransfer())
      return failAt(i, "expected the first input of a copy_wait to be its copy_start");
    if (hasOf != (start.transfer == Op::Transfer::StartPrefetch))
      return failAt(i, "'of' belongs to the wait of a copy to_device, and to no other");
    if (hasOf) {
      op.transfer = Op::Transfer::WaitPrefetch;
      op.outputBytes = start.outputBytes;
    }
  }

  // Reads `of`: a node or [node, output].
  void readOf(size_t i) {
    const Json *of = get((*nodes_)[i], "of");
    if (!of)
      return;
    Op &op = out_.problem.ops[i];
    const bool isOne = of->is_array();
    if (isOne && of->size() != 2)
      return failAt(i, "expected 'of' to be a node, or [node, output], found {0}", of->dump());
    op.of = OpIndex(numberIn(i, isOne ? (*of)[0] : *of, "of", numNodes() - 1));
    if (isOne)
      op.ofOutput = uint32_t(numberIn(i, (*of)[1], "of", Op::kAllOutputs - 1));
  }

  void checkOps() {
    if (auto fault = plan::faultOf(out_.problem))
      failAt(fault->op, "{0}", fault->why);
  }

  // Reads the inputs, once all nodes are known. An input without an index reads all outputs of its
  // node.
  void link(size_t i) {
    const Json &n = (*nodes_)[i];
    Op &op = out_.problem.ops[i];
    const Json *inputs = get(n, "inputs");
    if (!inputs || !inputs->is_array())
      return failAt(i, "expected a list 'inputs'");
    const Json *index = get(n, "index");
    uint64_t base = number(i, n, "view_of", ~0ull);
    std::vector<uint32_t> firstRead;
    for (const Json &input : *inputs) {
      uint64_t u = numberIn(i, input, "inputs", numNodes() - 1);
      if (!error_.empty())
        return;
      if (u >= i && !op.isAlternative)
        return failAt(i, "reads node {0}, which does not come before it", u);
      const Op &from = out_.problem.ops[u];
      firstRead.push_back(uint32_t(op.inputs.size()));
      bool isBase = isView_[i] && (base == ~0ull ? firstRead.size() == 1 : u == base);
      if (isBase)
        op.viewOf = firstRead.back();
      if (isBase && index && !from.isPinned) {
        uint64_t slot =
            numberIn(i, *index, "index", std::max<size_t>(from.outputBytes.size(), 1) - 1);
        op.inputs.push_back({OpIndex(u), uint32_t(slot)});
      } else if (isBase && from.outputBytes.size() > 1 && !from.isPinned) {
        return failAt(i, "a view of node {0}, which has {1} outputs, needs an 'index'", u,
                      from.outputBytes.size());
      } else {
        size_t width =
            from.isPinned || isView_[u] ? 1 : std::max<size_t>(from.outputBytes.size(), 1);
        for (uint32_t o = 0; o < width; ++o)
          op.inputs.push_back({OpIndex(u), o});
      }
    }
    if (isView_[i] && !op.isView())
      return failAt(i, "its base is not among its inputs");
    readOverwrites(i, firstRead);
    const Json *reuse = get(n, "may_reuse");
    if (reuse && !reuse->is_array())
      return failAt(i, "expected 'may_reuse' to be a list of [output, input] pairs");
    for (size_t k = 0; reuse && k < reuse->size() && error_.empty(); ++k) {
      const Json &pair = (*reuse)[k];
      if (!pair.is_array() || pair.size() != 2)
        return failAt(i, "expected 'may_reuse' to be a list of [output, input] pairs, found {0}",
                      pair.dump());
      uint64_t o =
          numberIn(i, pair[0], "may_reuse", std::max<size_t>(op.outputBytes.size(), 1) - 1);
      uint64_t p = numberIn(i, pair[1], "may_reuse", std::max<size_t>(firstRead.size(), 1) - 1);
      if (!error_.empty() || op.outputBytes.empty() || firstRead.empty())
        return failAt(i, "may_reuse of a node without outputs or inputs");
      const Op &from = out_.problem.ops[op.inputs[firstRead[p]].op];
      if (from.isPinned || from.isView() || from.outputBytes.size() == 1) // exactly one storage
        op.donations.push_back({uint32_t(o), firstRead[p]});
    }
  }

  // `firstRead`: by input of the node, the index of the first of its reads.
  void readOverwrites(size_t i, llvm::ArrayRef<uint32_t> firstRead) {
    const Json *list = get((*nodes_)[i], "overwrites");
    if (list && !list->is_array())
      return failAt(i, "expected 'overwrites' to be a list of inputs, found {0}", list->dump());
    if (list && !list->empty() && firstRead.empty())
      return failAt(i, "it overwrites an input, and has none");
    for (size_t k = 0; list && k < list->size() && error_.empty(); ++k)
      if (uint64_t input = numberIn(i, (*list)[k], "overwrites", firstRead.size() - 1);
          error_.empty())
        out_.problem.ops[i].overwrites.push_back(firstRead[input]);
  }

  void readOutputs() {
    const Json *outputs = get(json_, "outputs");
    if (!outputs || !outputs->is_array())
      return fail("expected a list 'outputs'");
    for (const Json &o : *outputs) {
      if (!o.is_number_unsigned() || o.get<uint64_t>() >= numNodes())
        return fail("expected 'outputs' to be ids of nodes, found {0}", o.dump());
      OpIndex u = o.get<OpIndex>();
      size_t width = isView_[u] ? 1 : std::max<size_t>(out_.problem.ops[u].outputBytes.size(), 1);
      for (uint32_t k = 0; k < width; ++k)
        out_.problem.outputs.push_back({u, k});
    }
    if (const Json *forward = get(json_, "forward_outputs"); forward && forward->is_array())
      for (const Json &o : *forward) {
        if (!o.is_number_unsigned() || o.get<uint64_t>() >= numNodes())
          return fail("expected 'forward_outputs' to be ids of nodes, found {0}", o.dump());
        out_.problem.forwardOutputs.push_back(o.get<OpIndex>());
      }
  }

  const Json &json_;
  std::string file_;
  const Json *nodes_ = nullptr;
  bool isSecond_ = false;
  std::vector<bool> isView_;
  std::vector<bool> starts_; // by node: it is the first input of a wait
  std::string error_;
  JointGraph out_;
  plan::SizeLimit sizes_{out_.problem};
};

llvm::Expected<Json> parse(llvm::StringRef text, llvm::StringRef file) {
  constexpr int kDepth = 64; // the format needs no more than 5
  auto json = parseJson(text, kDepth);
  if (!json)
    return makeError("{0}: {1}", file, plainMessage(json.takeError()));
  return json;
}

} // namespace

llvm::Expected<JointGraph> parseJointGraph(llvm::StringRef text, llvm::StringRef file) {
  auto json = parse(text, file);
  if (!json)
    return json.takeError();
  return Reader(*json, file).run();
}

std::string printSchedule(llvm::StringRef name, const plan::Schedule &s) {
  return jsonText(Json{{"graph", name.str()}, {"schedule", s}}) + "\n";
}

llvm::Expected<plan::Schedule> parseSchedule(llvm::StringRef text, llvm::StringRef file,
                                             llvm::StringRef name) {
  auto json = parse(text, file);
  if (!json)
    return json.takeError();
  if (!json->is_object() || !json->contains("schedule") || !(*json)["schedule"].is_array())
    return makeError("{0}: expected an object with a list 'schedule'", file);
  if (json->value("graph", Json()) != Json(name.str()))
    return makeError("{0}: the schedule is for graph {1}, and the problem is '{2}'", file,
                     json->value("graph", Json()).dump(), name);
  plan::Schedule s;
  for (const Json &id : (*json)["schedule"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
      return makeError("{0}: expected 'schedule' to be a list of node ids, found {1}", file,
                       id.dump());
    s.push_back(id.get<plan::OpIndex>());
  }
  return s;
}

} // namespace isthmus
