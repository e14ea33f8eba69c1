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

const Json *get(const Json &object, const char *key) {
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

// Reads one file. Keeps the first error; later steps then do nothing. It checks that the file has
// the form of a problem; acceptGiven checks the problem.
class Reader {
public:
  Reader(const Json &file, llvm::StringRef name) : json_(file), file_(name) {}

  llvm::Expected<JointGraph> run() {
    readTop();
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      readNode(i);
    for (size_t i = 0; i < numNodes() && error_.empty(); ++i)
      readInputs(i);
    if (error_.empty())
      readOutputs();
    if (error_.empty())
      if (auto fault = plan::acceptGiven(problem_))
        fault->op == Op::kNone ? fail("{0}", fault->why) : failAt(fault->op, "{0}", fault->why);
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

  // --- Values of keys

  uint64_t numberIn(size_t node, const Json &v, const char *key, uint64_t most = plan::kMostBytes) {
    if (v.is_number_unsigned() && v.get<uint64_t>() <= most)
      return v.get<uint64_t>();
    failAt(node, "expected '{0}' to be a whole number from 0 to {1}, found {2}", key, most,
           v.dump());
    return 0;
  }
  OpIndex idIn(size_t node, const Json &v, const char *key) {
    return OpIndex(numberIn(node, v, key, numNodes() - 1));
  }
  double time(size_t node, const Json &object, const char *key) {
    const Json *v = get(object, key);
    if (v && v->is_number())
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
  // The list of a key; an empty one if the key is missing.
  const Json &listIn(size_t node, const Json &object, const char *key, const char *of) {
    static const Json kEmpty = Json::array();
    const Json *v = get(object, key);
    if (v && !v->is_array())
      failAt(node, "expected '{0}' to be a list of {1}, found {2}", key, of, v->dump());
    return v && v->is_array() ? *v : kEmpty;
  }

  // --- The file

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
    if (const char *key = firstOfSecond(json_, {"order", "forward_outputs", "alignment"}))
      return fail("key '{0}' belongs to format joint-graph/2, and this file is joint-graph/1", key);
    if (const Json *a = get(json_, "alignment")) {
      if (!a->is_number_unsigned() || a->get<uint64_t>() < 1 || a->get<uint64_t>() > (1u << 30))
        return fail("expected 'alignment' to be a whole number from 1 on, found {0}", a->dump());
      problem_.alignment = a->get<int64_t>();
    }
    if (const Json *order = get(json_, "order")) {
      const auto *found = llvm::find(kOrderNames, *order);
      if (found == std::end(kOrderNames))
        return fail("expected 'order' to be free, phases or fixed, found {0}", order->dump());
      problem_.order = plan::Order(found - kOrderNames);
    }
    nodes_ = get(json_, "nodes");
    problem_.ops.resize(nodes_->size());
  }

  // The first of the keys that the object has although the file is joint-graph/1.
  const char *firstOfSecond(const Json &object, std::initializer_list<const char *> keys) const {
    for (const char *key : keys)
      if (!isSecond_ && get(object, key))
        return key;
    return nullptr;
  }

  // Reads what a node says of itself.
  void readNode(size_t i) {
    const Json &n = (*nodes_)[i];
    if (!n.is_object())
      return failAt(i, "expected an object, found {0}", n.dump());
    if (get(n, "id") == nullptr || *get(n, "id") != i)
      return failAt(i, "expected 'id' {0}: ids count from 0 in the order of the list", i);
    if (const char *key = firstOfSecond(
            n, {"workspace", "may_reuse", "overwrites", "of", "kind", "bus_us", "direction"}))
      return failAt(i, "key '{0}' belongs to format joint-graph/2, and this file is joint-graph/1",
                    key);
    Op &op = problem_.ops[i];
    const Json *name = get(n, "name");
    op.name = name && name->is_string() ? name->get<std::string>() : "node " + std::to_string(i);
    op.isPinned = flag(i, n, "persistent", false);
    op.recomputable = flag(i, n, "recomputable", true);
    op.cost = time(i, n, "cost");
    if (const Json *phase = get(n, "phase"))
      if (const auto *found = llvm::find(kPhaseNames, *phase); found != std::end(kPhaseNames))
        op.phase = plan::OpPhase(found - kPhaseNames);
    if (const Json *workspace = get(n, "workspace"))
      op.workspace = int64_t(numberIn(i, *workspace, "workspace"));
    isView_.push_back(flag(i, n, "view", false) && !op.isPinned); // what is pinned is no view
    readBytes(i);
    readKind(i);
    if (const Json *of = get(n, "of"))
      readOf(i, *of);
    op.isAlternative = get(n, "of") || get(n, "kind");
  }

  void readBytes(size_t i) {
    const Json &n = (*nodes_)[i];
    std::vector<int64_t> &sizes = problem_.ops[i].outputBytes;
    if (!isView_[i])
      for (const Json &bytes : listIn(i, n, "out_bytes", "sizes"))
        sizes.push_back(int64_t(numberIn(i, bytes, "out_bytes")));
    if (!isView_[i] && !get(n, "out_bytes")) {
      if (const Json *bytes = get(n, "bytes"))
        sizes = {int64_t(numberIn(i, *bytes, "bytes"))};
      else if (!get(n, "kind"))
        failAt(i, "expected 'bytes', or a list 'out_bytes'; found neither");
    }
    int64_t sum = 0;
    for (int64_t bytes : sizes)
      sum = plan::saturatingSum(sum, bytes);
    if (sizes.empty() || problem_.ops[i].isPinned) // one storage, whatever it holds
      sizes = {sum};
  }

  // Reads `kind` and the keys that belong to it.
  void readKind(size_t i) {
    const Json &n = (*nodes_)[i];
    const Json *kind = get(n, "kind"), *direction = get(n, "direction");
    Op &op = problem_.ops[i];
    if (!kind)
      return;
    if (*kind == "copy_wait") {
      op.transfer = get(n, "of") ? Op::Transfer::WaitPrefetch : Op::Transfer::WaitOffload;
      return;
    }
    if (*kind != "copy_start")
      return failAt(i, "expected 'kind' to be copy_start or copy_wait, found {0}", kind->dump());
    if (!direction || (*direction != "to_host" && *direction != "to_device"))
      return failAt(i, "expected 'direction' to be to_host or to_device, found {0}",
                    direction ? direction->dump() : "nothing");
    op.transfer =
        *direction == "to_host" ? Op::Transfer::StartOffload : Op::Transfer::StartPrefetch;
    op.transferTime = time(i, n, "bus_us");
  }

  // `of`: a node or [node, output].
  void readOf(size_t i, const Json &of) {
    Op &op = problem_.ops[i];
    const bool isOne = of.is_array();
    if (isOne && of.size() != 2)
      return failAt(i, "expected 'of' to be a node, or [node, output], found {0}", of.dump());
    op.of = idIn(i, isOne ? of[0] : of, "of");
    if (isOne)
      op.ofOutput = uint32_t(numberIn(i, of[1], "of", Op::kAllOutputs - 1));
  }

  // Reads the inputs, once all nodes are known, and what refers to them. An input without an index
  // reads all outputs of its node.
  void readInputs(size_t i) {
    const Json &n = (*nodes_)[i];
    Op &op = problem_.ops[i];
    if (!get(n, "inputs"))
      return failAt(i, "expected a list 'inputs'");
    const Json *base = get(n, "view_of"), *index = get(n, "index");
    const uint64_t baseId = base ? numberIn(i, *base, "view_of") : 0;
    std::vector<uint32_t> first; // by input: the index of the first of its reads
    for (const Json &input : listIn(i, n, "inputs", "nodes")) {
      const OpIndex u = idIn(i, input, "inputs");
      if (!error_.empty())
        return;
      first.push_back(uint32_t(op.inputs.size()));
      const bool isBase = isView_[i] && (base ? u == baseId : first.size() == 1);
      const uint32_t width = numOutputs(u);
      if (isBase)
        op.viewOf = first.back();
      if (isBase && width > 1 && !index)
        return failAt(i, "a view of node {0}, which has {1} outputs, needs an 'index'", u, width);
      const bool isOne = isBase && index && !problem_.ops[u].isPinned;
      const uint32_t begin = isOne ? uint32_t(numberIn(i, *index, "index", width - 1)) : 0;
      for (uint32_t o = begin; o < (isOne ? begin + 1 : width); ++o)
        op.inputs.push_back({u, o});
    }
    if (isView_[i] && !op.isView())
      return failAt(i, "its base is not among its inputs");
    for (const Json &input : listIn(i, n, "overwrites", "inputs"))
      op.overwrites.push_back(firstRead(i, first, input, "overwrites"));
    for (const Json &pair : listIn(i, n, "may_reuse", "[output, input] pairs"))
      readDonation(i, first, pair);
  }

  // The wait for a prefetch has the outputs of its start, its first input.
  uint32_t numOutputs(OpIndex u) const {
    if (problem_.ops[u].transfer == Op::Transfer::WaitPrefetch)
      if (const Json *inputs = get((*nodes_)[u], "inputs"); inputs && inputs->is_array())
        if (!inputs->empty() && isId(inputs->front()))
          u = inputs->front().get<OpIndex>();
    return uint32_t(problem_.ops[u].outputBytes.size());
  }

  // The first read of the input that a key of the node names by its position.
  uint32_t firstRead(size_t i, llvm::ArrayRef<uint32_t> first, const Json &input, const char *key) {
    if (first.empty())
      failAt(i, "'{0}' refers to an input, and the node has none", key);
    const uint64_t position = numberIn(i, input, key, std::max<size_t>(first.size(), 1) - 1);
    return error_.empty() ? first[position] : 0;
  }

  void readDonation(size_t i, llvm::ArrayRef<uint32_t> first, const Json &pair) {
    Op &op = problem_.ops[i];
    if (!pair.is_array() || pair.size() != 2)
      return failAt(i, "expected 'may_reuse' to be a list of [output, input] pairs, found {0}",
                    pair.dump());
    const uint64_t output = numberIn(i, pair[0], "may_reuse", op.outputBytes.size() - 1);
    const uint32_t read = firstRead(i, first, pair[1], "may_reuse");
    if (!error_.empty())
      return;
    if (numOutputs(op.inputs[read].op) == 1) // exactly one storage
      op.donations.push_back({uint32_t(output), read});
  }

  void readOutputs() {
    const Json *outputs = get(json_, "outputs"), *forward = get(json_, "forward_outputs");
    if (!outputs || !outputs->is_array())
      return fail("expected a list 'outputs'");
    for (const Json &o : *outputs) {
      if (!isId(o))
        return fail("expected 'outputs' to be ids of nodes, found {0}", o.dump());
      for (uint32_t k = 0; k < numOutputs(o.get<OpIndex>()); ++k)
        problem_.outputs.push_back({o.get<OpIndex>(), k});
    }
    if (!forward || !forward->is_array())
      return;
    for (const Json &o : *forward) {
      if (!isId(o))
        return fail("expected 'forward_outputs' to be ids of nodes, found {0}", o.dump());
      problem_.forwardOutputs.push_back(o.get<OpIndex>());
    }
  }
  bool isId(const Json &v) const {
    return v.is_number_unsigned() && v.get<uint64_t>() < numNodes();
  }

  const Json &json_;
  std::string file_;
  const Json *nodes_ = nullptr;
  bool isSecond_ = false;
  std::vector<bool> isView_;
  std::string error_;
  JointGraph out_;
  plan::Problem &problem_ = out_.problem;
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
