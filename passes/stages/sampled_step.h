// A step of many micro-batches, simulated by means of a few of them.
//
// Micro-batches of one size cost and hold the same, so a graph with some of them tells what all do:
// a task (task_order.h) of a micro-batch that the graph does not have repeats that of one which it
// has. The order, the clocks and the messages are those of the whole step, and so are the bytes: a
// task raises what is live on its device by as much as it does in the sample.
#pragma once

#include "passes/stages/order.h"
#include "passes/stages/place_problem.h"
#include "passes/stages/simulate.h"

namespace isthmus {

// The first micro-batch, the last, and one of each size between.
struct BatchSample {
  int64_t examples = 0, count = 1;
  std::vector<int64_t> numbers; // ascending

  BatchSample() = default;
  BatchSample(int64_t examples, int64_t count);
  bool isWhole() const { return int64_t(numbers.size()) == count; }
  int64_t sizeOf(int64_t batch) const;
  // The index of the number that stands for the micro-batch.
  size_t standsFor(int64_t batch) const;
  // Whether the number at the index stands for one micro-batch alone.
  bool isOnce(size_t index) const { return index == 0 || index + 1 == numbers.size(); }
};

// The tasks of all micro-batches, in order.
struct RepeatedTasks {
  PipelineTasks tasks;
  std::vector<uint32_t> sampleOf; // by task: the task of the sample that it repeats
  std::vector<uint32_t> order;
};
// None if a task of the sample needs another micro-batch than its own and the one before.
std::optional<RepeatedTasks> repeated(const PipelineTasks &sample, const BatchSample &batches,
                                      StageOrder order, uint32_t devices);

// A graph of the sample, with messages, and the problems of its places.
struct SampledGraph {
  // Sets the places of tasks, by those of their nodes.
  void findPlaces();
  uint32_t numTasksOf(uint32_t place) const;

  const Graph *graph = nullptr;
  const GraphProblem *problem = nullptr;
  const std::vector<PlaceProblem> *places = nullptr;
  const PipelineTasks *tasks = nullptr;
  std::vector<uint32_t> taskOf;          // by node; OrderedGraph::kNoTask for nodes of no task
  std::vector<uint32_t> placeOf, slotOf; // by task: its place, and its number among the tasks there
  const BatchSample *batches = nullptr;
};

// What a device does for a task, under a schedule of its problem.
struct TaskSteps {
  struct Event {
    enum Kind : uint8_t { Compute, Send, Receive, Wait } kind;
    uint32_t node;      // of a message: its send, in the sample
    double seconds = 0; // of computing, on the target
  };
  std::vector<Event> events;
  size_t numEarly = 0; // of the events: they stand before waits for sends
  // Bytes live, beyond those before it: the most in early events, the most in others, and those
  // after it. What a wait for a send frees is left out.
  int64_t earlyRise = 0, rise = 0, change = 0;
  double cost = 0;              // microseconds, of the problem
  size_t nodes = 0, clones = 0; // waits for sends are left out here too
};

struct PlaceSteps {
  std::vector<TaskSteps> tasks; // by slot
  TaskSteps end;                // after the last task
  // By send: the bytes that the wait for it frees.
  llvm::DenseMap<uint32_t, int64_t> freedBy;
};

// What the tasks of a place do. None if a message goes from one micro-batch to another.
std::optional<PlaceSteps> stepsOf(const SampledGraph &g, uint32_t place, const plan::Schedule &s,
                                  const Target &target);

struct RepeatedFigures {
  StepTimes times;
  std::vector<int64_t> peaks; // by place
  double cost = 0;            // microseconds
  size_t nodes = 0, clones = 0, messages = 0;
  std::vector<size_t> nodesOf; // by place
};
RepeatedFigures simulateRepeated(const SampledGraph &g, const RepeatedTasks &all,
                                 llvm::ArrayRef<const PlaceSteps *> places, const Machine &machine);

} // namespace isthmus
