// The computation graph: a list of nodes in execution order. The order is the schedule.
//
// A Graph is a value: passes take one and return another. Nodes and values are only ever appended,
// ids are dense, and references to nodes and values stay valid while more are added. A node's
// operands come before it. The row of a node's op defines its meaning (op_def.h).
#pragma once

#include "ir/attr.h"
#include "ir/diagnostics.h"
#include "ir/ids.h"
#include "ir/initializer.h"
#include "ir/op_def.h"
#include "ir/record.h"
#include "ir/tensor.h"
#include "ir/type.h"
#include "llvm/ADT/StringMap.h"
#include <algorithm>
#include <deque>
#include <map>

namespace isthmus {

enum class Phase : uint8_t { Forward, Backward, Update };
llvm::StringRef phaseName(Phase p); // "forward", "backward", "update"

// How a graph input gets its value: `input` is fed at every step; `param` is learned; `state` is
// carried from step to step by update nodes (running averages); `const` never changes.
enum class InputKind : uint8_t { Input, Param, State, Const };
llvm::StringRef inputKindName(InputKind k);

struct Input {
  InputKind kind;
  ValueId value;
  Initializer init;
};

struct Value {
  Type type;
  llvm::StringRef name; // unique in the graph, owned by it
  NodeId def;           // none for a graph input
  uint32_t resultIndex = 0;
  Loc loc; // of an input; a result has the location of its node
};

// What a node that a rewrite made stands for.
enum class StandIn : uint8_t {
  None,     // it is a node of the original
  Clone,    // it recomputes the node `origin`; the others restore the value `restores`:
  Boundary, // passes it on to clones
  Inverse,  // rebuilds it from a value that was computed from it
  Helper,   // computes what an inverse reads
  Encoding, // makes a smaller value, which suffices for its readers
  Transfer, // copies it to the host's memory or back, or waits for such a copy
  Chunk     // computes a chunk of it, or puts chunks together
};
constexpr size_t kNumStandIns = 8;
// The kinds of nodes that restore a value.
constexpr StandIn kRestoring[] = {StandIn::Boundary, StandIn::Inverse,  StandIn::Helper,
                                  StandIn::Encoding, StandIn::Transfer, StandIn::Chunk};
llvm::StringRef standInName(StandIn kind); // "clone", "boundary", ...; "" for None

// How a node relates to the nodes that it was made from. Differentiation and the rewrite set these
// fields; other passes keep them.
struct Provenance {
  // Of a backward node of the original: the forward node of whose gradient it is a part. The node
  // of a second derivative is of the forward node that the node is of which it is the gradient.
  // None where the file does not say it. A stand-in is of the node of what it stands for.
  NodeId gradientOf;
  StandIn kind = StandIn::None;
  NodeId origin;      // of a clone: the earlier node whose op it repeats
  ValueId restores;   // of other stand-ins: the value that the node's first result replaces
  uint32_t chunk = 0; // of a chunk: its number, counted from 0
  // Nodes that must run before this one, beyond those that make its operands.
  llvm::SmallVector<NodeId, 0> after;
  // The node's index in the graph before the rewrite, where the order of this graph does not imply
  // it.
  std::optional<uint32_t> sourceIndex;
};

struct Node {
  const OpDef *op = nullptr;
  llvm::SmallVector<ValueId, 4> operands;
  ValueId firstResult;
  uint32_t numResults = 0;
  Phase phase = Phase::Forward;
  Attrs attrs;

  Provenance from;
  std::vector<std::string> marks; // without '#'
  std::string device;             // "cpu:0", or empty
  Loc loc;

  ValueId result(uint32_t i) const { return ValueId(firstResult.index + i); }
  bool is(StandIn kind) const { return from.kind == kind; }
  bool isStandIn() const { return !is(StandIn::None); }
  bool isClone() const { return is(StandIn::Clone); }
  bool isRestoring() const { return isStandIn() && !isClone(); }
  void standFor(NodeId origin) {
    from.kind = StandIn::Clone;
    from.origin = origin;
  }
  void standFor(ValueId restores, StandIn kind) {
    from.kind = kind;
    from.restores = restores;
  }
  bool hasMark(llvm::StringRef m) const;
};

// The meaning of an output to the caller that runs the graph.
enum class OutputKind : uint8_t {
  Result,
  Gradient, // of the loss with respect to the value `of`; `order` is 2 for a second derivative, ...
  NextState // the next step's value of the state input `of`
};
struct OutputRole {
  OutputKind kind = OutputKind::Result;
  ValueId of;
  unsigned order = 1;
  // Whether chunks that the file does not keep add the sums of the output, so that its bits may
  // differ from those of the graph that was cut into chunks.
  bool isRounded = false;
  friend bool operator==(const OutputRole &, const OutputRole &) = default;
};

class Graph {
public:
  explicit Graph(std::string name = "main") : name(std::move(name)) {}
  Graph(const Graph &other);
  Graph(Graph &&) = default;
  Graph &operator=(const Graph &other) { return *this = Graph(other); }
  Graph &operator=(Graph &&) = default;

  std::string name;
  std::string sourceFile;                  // for diagnostics; "" if made in memory
  bool fromOnnx = false;                   // decides how `Loc` is read
  GraphRecord record;                      // the options that shaped the graph
  std::map<std::string, std::string> meta; // facts of other tools, kept in the file
  std::string weightsFile;   // the file of initializers with a key, as the text names it
  std::string weightsDigest; // the digest of that file, from the text; empty: any file is accepted
  ValueId loss;              // the value that the file names as the loss, if any

  // --- Reading
  size_t numNodes() const { return nodes_.size(); } // without those that chunks replace
  template <typename F> size_t countNodes(F counts) const {
    return size_t(std::count_if(nodes_.begin(), nodes_.end(), counts));
  }
  size_t numValues() const { return values_.size(); }
  const Node &node(NodeId n) const {
    return isReplaced(n) ? replaced_[n.index - kFirstReplaced] : nodes_[n.index];
  }
  // Nodes of the original that do not run, because chunks replace them. They are kept for what they
  // say: the original is made of them. Only such nodes, and chunks as what they restore, refer to
  // their results, which have no bytes. They come after all others and have a source index.
  static constexpr uint32_t kFirstReplaced = 1u << 31;
  static bool isReplaced(NodeId n) { return n && n.index >= kFirstReplaced; }
  size_t numReplaced() const { return replaced_.size(); }
  NodeId replaced(size_t i) const { return NodeId(uint32_t(kFirstReplaced + i)); }
  const Value &value(ValueId v) const { return values_[v.index]; }
  const Type &type(ValueId v) const { return values_[v.index].type; }
  llvm::StringRef valueName(ValueId v) const { return values_[v.index].name; }
  // The name of a node is that of its first result.
  llvm::StringRef nodeName(NodeId n) const { return valueName(nodes_[n.index].firstResult); }
  ValueId find(llvm::StringRef name) const; // none if there is no such value
  llvm::ArrayRef<Input> inputs() const { return inputs_; }
  const Input *inputOf(ValueId v) const; // null if `v` is a node's result
  llvm::ArrayRef<ValueId> outputs() const { return outputs_; }
  const OutputRole &role(size_t output) const { return roles_[output]; }
  bool hasBackward() const; // has nodes of phase Backward: was differentiated
  bool hasClones() const;
  bool isRewritten() const; // nodes are clones, stand-ins, or out of the original order
  // Whether a plan decided the order or how values are brought back. Such a graph runs as written.
  bool wasPlanned() const { return record.wasPlanned() || isRewritten(); }
  OpCall call(NodeId n) const;
  std::string whereIs(Loc loc) const;  // "file:line:col", or ""
  std::string whereIs(NodeId n) const; // the same for a node; names it if no text line is known

  // --- Writing
  // Makes `name` unique by a suffix ".2", ".3", ... and fills in the initializer's missing
  // arguments. Errors: an invalid type, and an initializer that does not suit it.
  llvm::Expected<ValueId> addInput(InputKind kind, llvm::StringRef name, const Type &type,
                                   Initializer init = {}, Loc loc = {});
  // Completes `attrs`, infers the result types and appends the node. `names` are made unique;
  // missing ones are derived from the op's name.
  llvm::Expected<NodeId> addNode(const OpDef &op, llvm::ArrayRef<ValueId> operands, Attrs attrs,
                                 llvm::ArrayRef<std::string> names = {},
                                 Phase phase = Phase::Forward);
  // The same for a node that does not run.
  llvm::Expected<NodeId> addReplaced(const OpDef &op, llvm::ArrayRef<ValueId> operands, Attrs attrs,
                                     llvm::ArrayRef<std::string> names, Phase phase);
  // The caller must not change op, operands, attributes or results.
  Node &editNode(NodeId n) {
    return isReplaced(n) ? replaced_[n.index - kFirstReplaced] : nodes_[n.index];
  }
  void addOutput(ValueId v, OutputRole role = {}) {
    outputs_.push_back(v);
    roles_.push_back(role);
  }
  void setRole(size_t output, OutputRole role) { roles_[output] = role; }
  void clearOutputs() {
    outputs_.clear();
    roles_.clear();
  }
  // Gives `v` the name `name`, which must be free.
  void rename(ValueId v, llvm::StringRef name);
  std::string uniqueName(llvm::StringRef base) const;

private:
  ValueId addValue(llvm::StringRef name, const Type &type);
  llvm::Expected<Node> makeNode(NodeId id, const OpDef &op, llvm::ArrayRef<ValueId> operands,
                                Attrs attrs, llvm::ArrayRef<std::string> names, Phase phase);

  std::deque<Node> nodes_, replaced_;
  std::deque<Value> values_;
  std::vector<Input> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<OutputRole> roles_; // of the outputs
  llvm::StringMap<ValueId> byName_;
  mutable llvm::StringMap<unsigned> nextSuffix_; // only a hint, to keep uniqueName linear
};

// For each value, the nodes that read it, in order; a node that reads it twice is listed twice.
class Uses {
public:
  explicit Uses(const Graph &g);
  llvm::ArrayRef<NodeId> of(ValueId v) const {
    return llvm::makeArrayRef(readers_).slice(start_[v.index],
                                              start_[v.index + 1] - start_[v.index]);
  }

private:
  std::vector<uint32_t> start_;
  std::vector<NodeId> readers_;
};

} // namespace isthmus
