// The planner's whole view of a graph: ops with costs and workspaces, the sizes of their outputs,
// and the reads of those. It knows nothing of tensors, so any framework can fill one in. Standard
// library only.
//
// The meaning of a schedule is that of the joint-graph format. A schedule is a list of steps, each
// of which runs one op and makes an instance of each of its storages. A read binds to the newest
// instance, an instance is freed after its last read, and inputs and outputs of the running op are
// all live. Transfers to the host and back queue up in the order of their starts, one queue for
// each direction, beside the ops that compute.
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

enum class OpPhase : uint8_t { Forward, Backward, Update };

struct Op {
  std::string name;
  OpPhase phase = OpPhase::Forward;
  double cost = 0;       // microseconds
  int64_t workspace = 0; // bytes live while it runs, and only then
  std::vector<Read> inputs;
  std::vector<int64_t> outputBytes; // one storage each; 0 for a view

  // The single output refers to the storage of this input, in the instance from which the view was
  // made.
  static constexpr uint32_t kNoView = ~0u;
  uint32_t viewOf = kNoView;

  bool isPinned = false;    // always live and never run: parameters, graph inputs; not charged
  bool recomputable = true; // may run more than once

  // Belongs to an alternative: another form of an op, or a transfer to the host or back. No
  // schedule has to run it, and only other such ops read it. It may come before its operands in
  // `ops`.
  bool isAlternative = false;
  // The op for which it is an alternative: it makes a new instance of all outputs of that op, or of
  // one.
  static constexpr uint32_t kNone = ~0u, kAllOutputs = ~0u;
  OpIndex of = kNone;
  uint32_t ofOutput = kAllOutputs;

  // A transfer is two ops: a start, which takes time on the link alone, and a wait, whose first
  // input is the start. An offload keeps its operands live until its wait has run. That wait's only
  // output, of 0 bytes, stands for the host's memory, which is never freed; only starts of
  // prefetches read it. The start of a prefetch allocates its outputs; its wait reads them and
  // makes them instances of `of`.
  enum class Transfer : uint8_t { None, StartOffload, WaitOffload, StartPrefetch, WaitPrefetch };
  Transfer transfer = Transfer::None;
  double transferTime = 0; // microseconds; set on starts only

  bool startsTransfer() const {
    return transfer == Transfer::StartOffload || transfer == Transfer::StartPrefetch;
  }
  bool waitsForTransfer() const {
    return transfer == Transfer::WaitOffload || transfer == Transfer::WaitPrefetch;
  }

  // Input `input` donates its bytes to output `output` if this op is its last reader and it is
  // large enough.
  struct Donation {
    uint32_t output;
    uint32_t input;
  };
  std::vector<Donation> donations;

  // Pinned inputs whose bytes the op overwrites with results; those results are outputs of 0 bytes.
  // Such an op runs once, after all readers of these inputs and of views of them.
  std::vector<uint32_t> overwrites;

  bool isView() const { return viewOf != kNoView; }
};

// Which orders of first runs are allowed.
enum class Order : uint8_t {
  Free,   // any order in which operands come before their readers
  Phases, // only forward ops run until all forward outputs are computed
  Fixed   // the source order
};

struct Problem {
  std::vector<Op> ops; // in source order: operands come first, except for alternatives
  std::vector<Read> outputs;
  Order order = Order::Free;
  std::vector<OpIndex> forwardOutputs; // for Order::Phases, besides the forward ops in `outputs`
  int64_t alignment = 1;               // storage and workspace sizes are rounded up to it

  int64_t rounded(int64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }
};

inline bool hasAlternatives(const Problem &p) {
  for (const Op &op : p.ops)
    if (op.isAlternative)
      return true;
  return false;
}

// The op that each step runs; a repeated op is a recomputation.
using Schedule = std::vector<OpIndex>;

struct Evaluation {
  std::string error; // empty, or why the schedule is invalid; then the other fields mean nothing
  int64_t peakBytes = 0;
  size_t peakStep = 0;
  double cost = 0;         // microseconds, with transfer stalls
  int64_t outputBytes = 0; // live at the end
  size_t recomputed = 0;   // steps beyond the first of an op and its other forms; views excluded
  size_t transfers = 0;    // offloads and prefetches
};

// The added cost as a share of `baseline`. It is 0 if the baseline is 0, and if the costs differ by
// rounding only: the same ops in another order sum a little differently.
inline double overhead(double cost, double baseline) {
  const double added = baseline > 0 ? cost / baseline - 1 : 0;
  return added < 1e-12 && added > -1e-12 ? 0 : added;
}

// The schedule in source order, without recomputation; dead ops included.
Schedule sourceOrder(const Problem &p);

// Peak and cost of a schedule. Linear in its length and the number of reads.
Evaluation evaluate(const Problem &p, const Schedule &s);

// One instance of one storage, for placing and explaining a schedule.
struct Instance {
  static constexpr uint32_t kNotDonated = ~0u;
  Read made;                        // the op and its output
  int64_t bytes = 0;                // rounded; may be 0
  uint32_t first = 0, last = 0;     // steps, both included
  bool isOutput = false;            // lives to the end
  std::vector<uint32_t> uses;       // steps that read it, or a view of it; ascending
  uint32_t donatedTo = kNotDonated; // the instance that takes over its bytes, at `last`
};

// The instances of a valid schedule, in the order in which steps make them. The live bytes at a
// step are the bytes of all instances whose first and last step enclose it, less those of instances
// that this step makes in donated bytes, plus the step's workspace.
std::vector<Instance> instancesOf(const Problem &p, const Schedule &s);
std::vector<int64_t> liveBytesOf(const Problem &p, const Schedule &s,
                                 const std::vector<Instance> &instances); // by step

} // namespace isthmus::plan
