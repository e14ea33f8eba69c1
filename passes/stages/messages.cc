#include "passes/stages/messages.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/place.h"
#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {
namespace {

class Messages {
public:
  explicit Messages(const Graph &g)
      : g_(g), places_(g), r_(g), home_(g.numValues(), kNone), pendingOf_(places_.count()),
        isPending_(g.numValues(), false), toRelease_(places_.count()) {}

  Graph run() {
    findHomes();
    findReaders();
    r_.copyInputs();
    for (const Input &i : g_.inputs())
      if (home_[i.value.index] != kNone) {
        pendingOf_[home_[i.value.index]].push_back(i.value);
        isPending_[i.value.index] = true;
      }
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      emit(NodeId(i));
    std::vector<size_t> left;
    for (const std::vector<size_t> &received : toRelease_)
      left.insert(left.end(), received.begin(), received.end());
    llvm::sort(left);
    for (size_t number : left)
      release(sent_[number]);
    return r_.finish();
  }

private:
  static constexpr uint32_t kNone = ~0u;

  // The device that has the value, or kNone for an input that every device has.
  void findHomes() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      for (ValueId v : n.operands)
        if (const Input *in = g_.value(v).def ? nullptr : g_.inputOf(v))
          if (home_[v.index] == kNone &&
              (in->kind == InputKind::Param || in->kind == InputKind::State))
            home_[v.index] = places_.of(NodeId(i));
      for (uint32_t r = 0; r < n.numResults; ++r)
        home_[n.result(r).index] = places_.of(NodeId(i));
    }
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (const OutputRole &role = g_.role(i); role.kind == OutputKind::NextState)
        if (const NodeId def = g_.value(g_.outputs()[i]).def; def && !g_.value(role.of).def)
          home_[role.of.index] = places_.of(def);
    // A view of an input that every device has is made where it is read: see emit().
  }

  void findReaders() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (const uint32_t from = home_[v.index], to = places_.of(NodeId(i));
            from != kNone && from != to)
          if (auto &at = readers_[v]; llvm::none_of(at, [&](uint32_t p) { return p == to; }))
            at.push_back(to);
  }

  struct Sent {
    ValueId value, token; // of the new graph
    uint32_t from = 0;    // the device that waits for it
    ValueId stands;       // of the new graph: what it stands for
    Phase phase = Phase::Forward;
  };

  void emit(NodeId id) {
    const uint32_t place = places_.of(id);
    const Node &n = g_.node(id);
    // Sends of inputs come before the first node of their device, and before their first reader: a
    // state lies where its next value is made, which may be a later stage than its readers'.
    std::vector<ValueId> inputs = std::move(pendingOf_[place]);
    pendingOf_[place].clear();
    llvm::copy_if(n.operands, std::back_inserter(inputs),
                  [&](ValueId v) { return isPending_[v.index]; });
    llvm::sort(inputs);
    for (ValueId v : inputs)
      if (isPending_[v.index]) {
        isPending_[v.index] = false;
        send(v, Phase::Forward);
      }
    releaseReceived(place);
    std::vector<std::pair<ValueId, ValueId>> before;
    for (ValueId v : n.operands)
      if (home_[v.index] != kNone && home_[v.index] != place) {
        const ValueId there = receive(v, place);
        before.push_back({v, r_.map(v)});
        r_.setMap(v, there);
      }
    r_.copyNode(id);
    for (const auto &[v, now] : llvm::reverse(before))
      r_.setMap(v, now);
    for (uint32_t r = 0; r < n.numResults; ++r)
      send(n.result(r), n.phase);
  }

  NodeId made(Builder &b, llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs,
              ValueId stands, const std::string &suffix) {
    const NodeId id = b.createNode(op, operands, std::move(attrs),
                                   r_.freshName(r_.to().valueName(stands).str() + suffix));
    r_.to().editNode(id).standFor(stands, StandIn::Transfer);
    return id;
  }

  // What a message of `v` restores: the value, or the first instance that a stand-in replaces.
  ValueId standsFor(ValueId v) {
    const ValueId now = r_.map(v);
    const NodeId def = r_.to().value(now).def;
    if (!def)
      return now;
    const Node &n = r_.to().node(def);
    if (n.isClone())
      return r_.to().node(n.from.origin).result(r_.to().value(now).resultIndex);
    return now;
  }

  void send(ValueId v, Phase phase) {
    const auto it = readers_.find(v);
    if (it == readers_.end())
      return;
    for (uint32_t to : it->second) {
      Builder b(r_.to(), phase);
      b.device = places_.name(home_[v.index]);
      Sent s;
      s.value = r_.map(v);
      s.from = home_[v.index];
      s.stands = standsFor(v);
      s.phase = phase;
      const int64_t tag = int64_t(sent_.size());
      s.token = r_.to()
                    .node(made(b, "send", {s.value}, {{"to", places_.name(to)}, {"tag", tag}},
                               s.stands, ".sent"))
                    .firstResult;
      number_[{v.index, to}] = sent_.size();
      sent_.push_back(s);
    }
  }

  // The value as device `to` has it, once it was received there.
  ValueId receive(ValueId v, uint32_t to) {
    ValueId &there = received_[{v.index, to}];
    if (there)
      return there;
    const auto sent = number_.find({v.index, to});
    ISTHMUS_CHECK(sent != number_.end(),
                  "'" + g_.valueName(v).str() + "' is received before it is sent");
    const size_t number = sent->second;
    Sent &s = sent_[number];
    const Type &type = r_.to().type(s.value);
    Builder b(r_.to(), s.phase);
    b.device = places_.name(to);
    const NodeId received = made(b, "receive", {s.token},
                                 {{"from", places_.name(s.from)},
                                  {"tag", int64_t(number)},
                                  {"dims", Ints(type.dims.begin(), type.dims.end())},
                                  {"dtype", dtypeName(type.dtype).str()}},
                                 s.stands, ".in");
    toRelease_[s.from].push_back(number);
    const Node &n = r_.to().node(received);
    const NodeId wait = made(b, "wait", {n.result(0), n.result(1)}, {}, s.stands, ".there");
    return there = r_.to().node(wait).firstResult;
  }

  // The sender waits until the message was received. Afterwards it may overwrite the value.
  void release(const Sent &s) {
    Builder b(r_.to(), s.phase);
    b.device = places_.name(s.from);
    made(b, "wait", {s.value, s.token}, {}, s.stands, ".free");
  }

  // What the device has sent, and others have received, since its last node.
  void releaseReceived(uint32_t place) {
    llvm::sort(toRelease_[place]);
    for (size_t number : toRelease_[place])
      release(sent_[number]);
    toRelease_[place].clear();
  }

  const Graph &g_;
  const Places places_;
  Rebuilder r_;
  std::vector<uint32_t> home_;                                      // by value
  llvm::DenseMap<ValueId, llvm::SmallVector<uint32_t, 1>> readers_; // the devices that need it sent
  // Inputs that are not sent yet, by the device that has them.
  std::vector<std::vector<ValueId>> pendingOf_;
  std::vector<bool> isPending_;                // by value
  std::vector<Sent> sent_;                     // by tag
  std::vector<std::vector<size_t>> toRelease_; // by place: tags of what was received
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, size_t> number_; // by value and device
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, ValueId> received_;
};

} // namespace

Graph withMessages(const Graph &g) { return Messages(g).run(); }

} // namespace isthmus
