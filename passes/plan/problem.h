// The planner's whole view of a graph: ops with costs and workspaces, the bytes they make, who
// reads them. It knows nothing of tensors, so any framework can fill one in. Standard library only.
//
// The meaning of a schedule is that of the joint-graph format: reads bind to the newest copy, a
// storage is freed after its last read, inputs and outputs of the running op are all live. Copies
// to the host and back go over one bus for each direction, in the order of their starts, beside
// the ops that compute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isthmus::plan {

using OpIndex = uint32_t;

// One output of one op.
struct Read {
  OpIndex op = 0;
  uint32_t output = 0;
  friend bool operator==(const Read &a, const Read &b) = default;
};

enum class Phase : uint8_t { Forward, Backward, Update };

struct Op {
  std::string name;
  Phase phase = Phase::Forward;
  double cost = 0;       // microseconds
  int64_t workspace = 0; // bytes live while it runs, and only then
  std::vector<Read> inputs;
  std::vector<int64_t> outputBytes; // one storage each; 0 for a view

  // The single output refers to the storage of this input, in the copy from which the view was
  // made.
  static constexpr uint32_t kNoView = ~0u;
  uint32_t viewOf = kNoView;

  bool persistent = false;  // always live and never run: parameters, graph inputs; not charged
  bool recomputable = true; // may run more than once

  // Another way to make a tensor, or a copy to the host or back: in no schedule unless a plan asks
  // for it, and read by such ops alone. It may come before what it reads.
  bool isOptional = false;
  // Of an optional op: what it makes is a new copy of all outputs of this op, or of one.
  static constexpr uint32_t kNone = ~0u, kAllOutputs = ~0u;
  OpIndex of = kNone;
  uint32_t ofOutput = kAllOutputs;

  // A copy is a start, which takes no time but on the bus, and a wait for it, whose first input it
  // is. What a copy to the host reads stays until the wait has run. The wait's only output, of 0
  // bytes, is what is on the host then, never freed; starts to the device alone read it. Such a
  // start allocates its outputs; its wait, whose outputs they are, makes them copies of `of`.
  enum class Copy : uint8_t { None, StartToHost, WaitToHost, StartToDevice, WaitToDevice };
  Copy copy = Copy::None;
  double busTime = 0; // of a start, microseconds

  bool isStart() const { return copy == Copy::StartToHost || copy == Copy::StartToDevice; }
  bool isWait() const { return copy == Copy::WaitToHost || copy == Copy::WaitToDevice; }

  // Output `output` takes over the storage of input `input` where that dies here and is as large.
  struct Reuse {
    uint32_t output;
    uint32_t input;
  };
  std::vector<Reuse> mayReuse;

  bool isView() const { return viewOf != kNoView; }
};

// Which orders of first runs are allowed.
enum class Order : uint8_t {
  Free,   // any in which inputs come before
  Phases, // until the forward outputs are there, only forward ops run
  Fixed   // the source order
};

struct Problem {
  std::vector<Op> ops; // in source order: inputs come before, but for optional ops
  std::vector<Read> outputs;
  Order order = Order::Free;
  std::vector<OpIndex> forwardOutputs; // of Order::Phases, beside forward ops among the outputs
  int64_t alignment = 1;               // storages and workspaces are rounded up to it

  int64_t rounded(int64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }
};

inline bool hasOptional(const Problem &p) {
  for (const Op &op : p.ops)
    if (op.isOptional)
      return true;
  return false;
}

// Which ops run, in order; an op that comes again is a recomputation.
using Schedule = std::vector<OpIndex>;

struct Evaluation {
  std::string error; // empty, or why the schedule is not valid; then nothing else holds
  int64_t peakBytes = 0;
  size_t peakStep = 0;
  double cost = 0;         // microseconds, with what is spent on waiting for copies
  int64_t outputBytes = 0; // live at the end
  size_t recomputed = 0;   // runs beyond the first, of an op and its other forms; without views
  size_t copies = 0;       // to the host and back
};

// The share of `baseline` that is added to it; nothing is added to nothing, nor by the same ops in
// another order, which sum a little differently.
inline double overhead(double cost, double baseline) {
  const double added = baseline > 0 ? cost / baseline - 1 : 0;
  return added < 1e-12 && added > -1e-12 ? 0 : added;
}

// The schedule in source order, without recomputation; dead ops included.
Schedule sourceOrder(const Problem &p);

// Peak and cost of a schedule. Linear in its length and the number of reads.
Evaluation evaluate(const Problem &p, const Schedule &s);

// When a copy of a storage is there, or a workspace.
struct Lifetime {
  int64_t bytes;        // rounded; more than 0
  uint32_t first, last; // steps, both included
};

// Of a valid schedule, for whoever places it. Results that take over an operand's storage share one
// lifetime with it.
std::vector<Lifetime> lifetimes(const Problem &p, const Schedule &s);

// One copy of one storage, for whoever explains a schedule.
struct StorageCopy {
  static constexpr uint32_t kNoHeir = ~0u;
  Read made;                    // the op and the output that it is of
  int64_t bytes = 0;            // rounded; may be 0
  uint32_t first = 0, last = 0; // steps, both included
  bool isOutput = false;        // stays to the end
  std::vector<uint32_t> uses;   // steps that read it, or a view of it; ascending
  uint32_t heir = kNoHeir;      // the copy that takes over its bytes, at `last`
};

// Of a valid schedule, in the order in which they are made. At each step, the bytes of all copies
// that are there, less those that an heir made then takes over, plus the step's workspace, are what
// is live.
std::vector<StorageCopy> storageCopies(const Problem &p, const Schedule &s);

} // namespace isthmus::plan
