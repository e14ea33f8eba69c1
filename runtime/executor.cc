#include "runtime/executor.h"

#include "ir/check.h"
#include "ir/storage.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>
#include <utility>

namespace isthmus {

static Tensor copyOf(const Tensor &t) {
  return Tensor::make(t.type, [&](char *to) { std::memcpy(to, t.data, size_t(t.bytes())); });
}

llvm::Expected<std::unique_ptr<Executor>> Executor::create(const Graph &graph, const Layout &layout,
                                                           Device &device,
                                                           llvm::ArrayRef<Tensor> shared,
                                                           Transport *transport) {
  std::unique_ptr<Executor> e(new Executor(graph, layout, device, transport));
  if (llvm::Error err = e->prepare())
    return err;
  for (size_t i = 0; i < shared.size(); ++i)
    if (e->mayShare(graph.inputs()[i].value, shared[i]))
      e->shared_[i] = shared[i];
  if (llvm::Error err = e->allocate())
    return err;
  for (size_t i = 0; device.computes() && i < shared.size(); ++i)
    if (shared[i])
      if (llvm::Error err = e->feed(graph.inputs()[i].value, shared[i]))
        return err;
  return e;
}

Executor::Executor(const Graph &graph, const Layout &layout, Device &device, Transport *transport)
    : graph_(graph), layout_(layout), device_(device), transport_(transport),
      arena_("the arena", layout.arenaBytes, device.target().alignment),
      onHost_("the host's memory", layout.hostBytes, device.target().alignment),
      roots_(storageRoots(graph)), within_(storageOffsets(graph)), shared_(graph.inputs().size()),
      fed_(graph.inputs().size(), false), reads_(graph.numValues(), 0) {
  for (uint32_t i = 0; i < graph.numNodes(); ++i)
    for (ValueId v : graph.node(NodeId(i)).operands)
      ++reads_[roots_[v.index].index];
  for (ValueId v : graph.outputs())
    ++reads_[roots_[v.index].index];
  for (uint32_t i = 0; i < graph.numValues(); ++i)
    if (ValueId v(i);
        graph.value(v).def && !graph.node(graph.value(v).def).op->is(kView) && isInInput(v))
      overwritten_.push_back({roots_[i], {}});
}

Executor::~Executor() {
  recorded_.reset();
  if (arenaBase_)
    device_.release(arenaBase_);
  if (inputBase_)
    device_.release(inputBase_);
  if (hostBase_)
    device_.releaseOnHost(hostBase_);
}

llvm::Error Executor::prepare() {
  kernels_.resize(graph_.numNodes());
  messages_.resize(graph_.numNodes());
  for (uint32_t i = 0; i < graph_.numNodes(); ++i) {
    NodeId id(i);
    const OpDef &op = *graph_.node(id).op;
    if (op.isMessage() && !transport_)
      return locate(makeError("'{0}' is a message between devices, and the graph runs on one "
                              "alone; expected a program for each device",
                              graph_.nodeName(id)),
                    graph_.whereIs(id));
    if (op.is(kView) || op.is(kTransfer) || op.isMessage())
      continue;
    auto kernel = device_.prepare(graph_.call(id));
    if (!kernel)
      return locate(kernel.takeError(), graph_.whereIs(id));
    kernels_[i] = *kernel;
  }
  return llvm::Error::success();
}

llvm::Error Executor::allocate() {
  int64_t bytes = 0;
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    inputOffset_.push_back(bytes);
    if (!shared_[i])
      bytes += device_.target().rounded(graph_.type(graph_.inputs()[i].value).bytes());
  }
  auto inputs = device_.allocate(bytes);
  if (!inputs)
    return addNote(inputs.takeError(), "the allocation that failed is for parameters and inputs");
  inputBase_ = *inputs;
  auto arena = device_.allocate(layout_.arenaBytes);
  if (!arena)
    return addRemedy(addNote(arena.takeError(), "the allocation that failed is the arena"),
                     {"budget", "", "make it smaller"});
  arenaBase_ = *arena;
  if (layout_.hostBytes == 0)
    return llvm::Error::success();
  auto host = device_.allocateOnHost(layout_.hostBytes);
  if (!host)
    return addNote(host.takeError(),
                   "the allocation that failed is for copies in the host's memory");
  hostBase_ = *host;
  return llvm::Error::success();
}

DeviceAddress Executor::addressOf(ValueId v) const {
  ValueId root = roots_[v.index];
  if (!graph_.value(root).def) {
    const uint32_t input = graph_.value(root).resultIndex;
    if (shared_[input]) // kernels do not write into it
      return const_cast<DeviceAddress>(shared_[input].data) + within_[v.index];
    return inputBase_ + inputOffset_[input] + within_[v.index];
  }
  const bool isOnHost = graph_.type(root).memory == Memory::Host;
  const int64_t offset = std::max<int64_t>(0, offsetOf(root)); // only empty tensors have no offset
  return (isOnHost ? hostBase_ : arenaBase_) + offset + within_[v.index];
}

Arena &Executor::booksOf(ValueId root) {
  return graph_.type(root).memory == Memory::Host ? onHost_ : arena_;
}

bool Executor::isAtOnePlace(ValueId a, ValueId b) const {
  return graph_.value(a).def && graph_.value(b).def &&
         graph_.type(a).memory == graph_.type(b).memory && storageBytes(a) > 0 &&
         storageBytes(a) == storageBytes(b) && offsetOf(a) == offsetOf(b);
}

int64_t Executor::storageBytes(ValueId root) const {
  return device_.target().rounded(graph_.type(root).bytes());
}

// Whether steps can read the input from `t`. (A tensor without an owner lies in the caller's bytes,
// which may change after the call.)
bool Executor::mayShare(ValueId v, const Tensor &t) const {
  const bool isAligned =
      reinterpret_cast<uintptr_t>(t.data) % uint64_t(device_.target().alignment) == 0;
  return device_.sharesHostMemory() && t.owner && t.type == graph_.type(v) && isAligned &&
         llvm::none_of(overwritten_, [&](const Overwritten &o) { return o.input == v; });
}

llvm::Error Executor::feed(ValueId v, const Tensor &t) {
  ISTHMUS_CHECK(!graph_.value(v).def, "fed a value that is no input");
  if (t.type != graph_.type(v))
    return makeError("input '%{0}' is of type {1}, got {2}", graph_.valueName(v),
                     graph_.type(v).str(), t.type.str());
  const uint32_t input = graph_.value(v).resultIndex;
  fed_[input] = true;
  if (shared_[input]) {
    shared_[input] = mayShare(v, t) ? t : copyOf(t);
    return llvm::Error::success();
  }
  for (Overwritten &o : overwritten_)
    if (o.input == v)
      o.fed = t.owner ? t : copyOf(t); // otherwise the caller owns its bytes
  return device_.write(addressOf(v), t.data, t.bytes());
}

// Restores the fed values of the inputs that the last step overwrote.
llvm::Error Executor::restoreOverwritten() {
  if (!device_.computes() || !std::exchange(holdsNext_, true))
    return llvm::Error::success();
  for (const Overwritten &o : overwritten_) {
    if (!o.fed)
      return makeError("the last step overwrote '%{0}'; carry its state on, or feed it",
                       graph_.valueName(o.input));
    if (llvm::Error e = device_.write(addressOf(o.input), o.fed.data, o.fed.bytes()))
      return e;
  }
  return llvm::Error::success();
}

llvm::Error Executor::beginStep(const RandomKey &random) {
  for (size_t i = 0; device_.computes() && i < fed_.size(); ++i)
    if (!fed_[i])
      return makeError("input '%{0}' was not given", graph_.valueName(graph_.inputs()[i].value));
  if (llvm::Error e = restoreOverwritten())
    return e;
  return device_.begin(random);
}

llvm::Error Executor::step(const RandomKey &random, const std::function<void(size_t)> &progress) {
  if (llvm::Error e = beginStep(random))
    return e;
  if (recorded_) { // same launches: live bytes and peak do not change
    if (llvm::Error e = recorded_->replay())
      return e;
    return device_.finish();
  }
  auto tell = [&](NodeId done) {
    if (progress)
      progress(done.index + 1);
    return llvm::Error::success();
  };
  if (transport_) { // messages are no launches, so that they cannot be recorded
    if (llvm::Error e = runNodes(tell))
      return e;
    return device_.finish();
  }
  auto recorded = device_.record(kernels_, [&] { return runNodes(tell); });
  if (!recorded)
    return recorded.takeError();
  recorded_ = std::move(*recorded);
  return device_.finish();
}

llvm::Error Executor::stepByNode(const RandomKey &random,
                                 llvm::function_ref<void(const NodeRun &)> after) {
  if (llvm::Error e = beginStep(random))
    return e;
  return runNodes([&](NodeId done) -> llvm::Error {
    if (llvm::Error e = device_.finish())
      return e;
    after({done, liveBytes_});
    return llvm::Error::success();
  });
}

llvm::Error Executor::runNodes(llvm::function_ref<llvm::Error(NodeId)> after) {
  readsLeft_ = reads_;
  arena_.reset();
  onHost_.reset();
  for (uint32_t i = 0; i < graph_.numNodes(); ++i) {
    llvm::Error e = runNode(NodeId(i));
    uint32_t done = i;
    if (!e) {
      e = after(NodeId(i));
      ++done;
    }
    if (e) {
      endTransfersBefore(NodeId(done));
      return locate(std::move(e), graph_.whereIs(NodeId(i)));
    }
  }
  return llvm::Error::success();
}

// Waits for the transfers of a step that failed, so that none writes into memory that is given
// back.
void Executor::endTransfersBefore(NodeId end) {
  for (uint32_t i = 0; i < end.index; ++i)
    if (graph_.node(NodeId(i)).op->is(kTransfer))
      llvm::consumeError(device_.waitForTransfer(i));
}

llvm::Error Executor::runNode(NodeId id) {
  const Node &n = graph_.node(id);
  if (n.op->is(kWait))
    if (llvm::Error e = waitFor(graph_.value(n.operands[1]).def))
      return e;
  if (n.op->is(kView)) { // no kernel runs
    liveBytes_ = arena_.liveBytes();
    giveBackDead(id, 0);
    return llvm::Error::success();
  }
  const PreparedKernel *kernel = kernels_[id.index];
  const int64_t workspace = kernel ? device_.target().rounded(kernel->workspaceBytes()) : 0;
  if (llvm::Error e = takeResults(id, workspace))
    return e;
  liveBytes_ = arena_.liveBytes();
  if (llvm::Error e = kernel              ? launch(id, workspace)
                      : n.op->isMessage() ? startMessage(id)
                                          : startTransfer(id))
    return e;
  giveBackDead(id, workspace);
  return llvm::Error::success();
}

llvm::Error Executor::waitFor(NodeId started) {
  if (graph_.node(started).op->isMessage())
    return transport_->wait(messages_[started.index]);
  return device_.waitForTransfer(started.index);
}

llvm::Error Executor::startMessage(NodeId id) {
  const Node &n = graph_.node(id);
  const bool isSend = n.op->is(kSend);
  const ValueId v = isSend ? n.operands[0] : n.firstResult;
  const int64_t bytes = device_.computes() ? graph_.type(v).bytes() : 0; // else nothing is there
  const int64_t tag = n.attrs.getInt("tag");
  llvm::Expected<uint64_t> started =
      isSend ? transport_->isend(n.attrs.getString("to"), tag, addressOf(v), bytes)
             : transport_->irecv(n.attrs.getString("from"), tag, addressOf(v), bytes);
  if (!started)
    return started.takeError();
  messages_[id.index] = *started;
  return llvm::Error::success();
}

llvm::Error Executor::launch(NodeId id, int64_t workspace) {
  const Node &n = graph_.node(id);
  llvm::SmallVector<const void *, 8> operands;
  llvm::SmallVector<void *, 4> results;
  for (ValueId v : n.operands)
    operands.push_back(addressOf(v));
  for (uint32_t r = 0; r < n.numResults; ++r)
    results.push_back(addressOf(n.result(r)));
  KernelArgs args;
  args.operands = operands;
  args.results = results;
  args.workspace = workspace ? arenaBase_ + layout_.workspaceOffset[id.index] : nullptr;
  return device_.launch(*kernels_[id.index], args);
}

llvm::Error Executor::startTransfer(NodeId id) {
  const Node &n = graph_.node(id);
  const ValueId from = n.operands[0], to = n.firstResult;
  const bool isToHost = graph_.type(to).memory == Memory::Host;
  return device_.startTransfer(
      {.id = id.index,
       .direction = isToHost ? TransferDirection::ToHost : TransferDirection::ToDevice,
       .to = addressOf(to),
       .from = addressOf(from),
       .bytes = graph_.type(to).bytes()});
}

bool Executor::diesHere(NodeId id, ValueId root) const {
  auto here =
      llvm::count_if(graph_.node(id).operands, [&](ValueId v) { return roots_[v.index] == root; });
  return readsLeft_[root.index] == here;
}

// Checks the op's row, independently of the layout. A kernel may read all operands until its end,
// except for elementwise ops, which read an element of each operand before they write that element.
bool Executor::mayOverwrite(NodeId id, uint32_t result, uint32_t operand) const {
  const Node &n = graph_.node(id);
  const bool isAllowed = llvm::any_of(n.op->inPlace, [&](const InPlace &pair) {
    return pair.result == result && pair.operand == operand;
  });
  const ValueId root = roots_[n.operands[operand].index];
  const bool isSoleReader =
      llvm::count_if(n.operands, [&](ValueId v) { return roots_[v.index] == root; }) == 1;
  return isAllowed && graph_.value(root).def && diesHere(id, root) &&
         graph_.type(root).bytes() == graph_.type(n.result(result)).bytes() &&
         graph_.type(root).bytes() == graph_.type(n.operands[operand]).bytes() &&
         (isSoleReader || n.op->is(kElementwise));
}

// A result takes new bytes, or those of an operand at the same offset that dies here and may be
// overwritten.
llvm::Error Executor::takeResults(NodeId id, int64_t workspace) {
  const Node &n = graph_.node(id);
  for (uint32_t r = 0; r < n.numResults; ++r) {
    const ValueId v = n.result(r);
    const int64_t bytes = storageBytes(v);
    if (isInInput(v))
      continue;
    for (uint32_t k = 0; k < n.operands.size(); ++k)
      if (ValueId root = roots_[n.operands[k].index];
          isAtOnePlace(root, v) && mayOverwrite(id, r, k)) {
        booksOf(v).giveBack(offsetOf(v), bytes);
        break;
      }
    if (llvm::Error e = booksOf(v).take(offsetOf(v), bytes, {graph_.valueName(v)}))
      return e;
  }
  if (workspace > 0)
    return arena_.take(layout_.workspaceOffset[id.index], workspace,
                       {graph_.nodeName(id), "the workspace of "});
  return llvm::Error::success();
}

void Executor::giveBackDead(NodeId id, int64_t workspace) {
  const Node &n = graph_.node(id);
  if (workspace > 0)
    arena_.giveBack(layout_.workspaceOffset[id.index], workspace);
  auto isOverwritten = [&](ValueId root) {
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (!n.op->is(kView) && isAtOnePlace(n.result(r), root))
        return true;
    return false;
  };
  for (ValueId v : n.operands) {
    ValueId root = roots_[v.index];
    if (--readsLeft_[root.index] == 0 && graph_.value(root).def && !isOverwritten(root))
      booksOf(root).giveBack(offsetOf(root), storageBytes(root));
  }
  for (uint32_t r = 0; r < n.numResults; ++r) {
    ValueId v = n.result(r);
    if (!n.op->is(kView) && !isInInput(v) && reads_[v.index] == 0)
      booksOf(v).giveBack(offsetOf(v), storageBytes(v));
  }
}

KernelCounts Executor::kernelCounts() const {
  KernelCounts counts;
  for (const PreparedKernel *kernel : kernels_) {
    if (!kernel)
      continue;
    if (!kernel->library.empty())
      ++counts.byLibrary[kernel->library.str()];
    counts.substitutes += kernel->isSubstitute();
  }
  return counts;
}

llvm::Error Executor::carryState() {
  if (!device_.computes())
    return llvm::Error::success();
  std::vector<std::pair<ValueId, Tensor>> fromInputs; // all are read before one is written
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const OutputRole &role = graph_.role(i);
    const ValueId now = graph_.outputs()[i];
    if (role.kind != OutputKind::NextState || !graph_.inputOf(role.of) ||
        addressOf(now) == addressOf(role.of))
      continue;
    auto t = fetch(now);
    if (!t)
      return t.takeError();
    if (!graph_.value(roots_[now.index]).def)
      fromInputs.push_back({role.of, std::move(*t)});
    else if (llvm::Error e = feed(role.of, *t))
      return e;
  }
  for (const auto &[input, t] : fromInputs)
    if (llvm::Error e = feed(input, t))
      return e;
  for (Overwritten &o : overwritten_)
    o.fed = {};
  holdsNext_ = false;
  return llvm::Error::success();
}

llvm::Expected<Tensor> Executor::fetch(ValueId v) {
  llvm::Error failed = llvm::Error::success();
  Tensor t = Tensor::make(graph_.type(v), [&](char *to) {
    llvm::consumeError(std::move(failed));
    failed = device_.read(to, addressOf(v), graph_.type(v).bytes());
  });
  if (failed)
    return failed;
  return t;
}

} // namespace isthmus
