// Runs a graph on one device, in the order of its nodes, inside one arena.
#pragma once

#include "ir/graph.h"
#include "ir/layout.h"
#include "runtime/arena.h"
#include "runtime/device.h"
#include <map>

namespace isthmus {

// Nodes by the library whose kernels they run on, and those on slow ones in place of a library's.
struct KernelCounts {
  std::map<std::string, size_t> byLibrary;
  size_t substitutes = 0;
};

class Executor {
public:
  // Prepares every kernel, then makes the one allocation for the arena, one for the graph's inputs,
  // and one in the host's memory where something goes there. `graph` and `device` must outlive the
  // executor. Errors (exit code 5 where the device fails): no kernel, a layout made for another
  // target, memory.
  static llvm::Expected<std::unique_ptr<Executor>> create(const Graph &graph, const Layout &layout,
                                                          Device &device);
  ~Executor();

  // What graph input `v` holds from now on, at the beginning of each step: where a step overwrites
  // it, `t` is kept until the state is carried on. Its type must be that of the graph.
  llvm::Error feed(ValueId v, const Tensor &t);

  // Runs all nodes. Every input must have been fed (but on a device that does not compute).
  // `progress`, if set, is called after each node with the number of nodes done, but where the
  // device runs a recorded step as a whole.
  llvm::Error step(const RandomKey &random, const std::function<void(size_t)> &progress = {});

  // The same, but that each node has ended before the next begins, as `after` is told.
  struct NodeRun {
    NodeId node;
    int64_t liveBytes; // in the arena while it ran, its workspace among them
  };
  llvm::Error stepByNode(const RandomKey &random, llvm::function_ref<void(const NodeRun &)> after);

  // After a step: inputs of which the graph gives the next state hold that from now on. Those that
  // the step overwrote are to be carried on, or fed, after each step from then on.
  llvm::Error carryState();

  // The value of an output after a step, or of an input; of one that the step overwrote, the next.
  llvm::Expected<Tensor> fetch(ValueId v);

  // After a step: a device may change kernels at their first launch.
  KernelCounts kernelCounts() const;
  int64_t arenaBytes() const { return layout_.arenaBytes; }
  int64_t measuredPeakBytes() const { return arena_.peakBytes(); }
  int64_t hostBytes() const { return layout_.hostBytes; } // taken of the host's memory

private:
  Executor(const Graph &graph, const Layout &layout, Device &device);
  llvm::Error prepare();
  llvm::Error allocate();
  llvm::Error beginStep(const RandomKey &random);
  llvm::Error runNodes(llvm::function_ref<llvm::Error(NodeId)> after);
  llvm::Error runNode(NodeId id);
  void endTransfersBefore(NodeId end);
  llvm::Error launch(NodeId id, int64_t workspace);
  llvm::Error startTransfer(NodeId id);
  llvm::Error takeResults(NodeId id, int64_t workspace);
  void giveBackDead(NodeId id, int64_t workspace);
  llvm::Error restoreOverwritten();
  bool isInInput(ValueId v) const { return !graph_.value(roots_[v.index]).def; }
  bool diesHere(NodeId id, ValueId root) const;
  bool mayOverwrite(NodeId id, uint32_t result, uint32_t operand) const;
  bool isAtOnePlace(ValueId a, ValueId b) const;
  int64_t storageBytes(ValueId root) const;
  int64_t offsetOf(ValueId root) const { return layout_.valueOffset[root.index]; }
  Arena &booksOf(ValueId root);
  DeviceAddress addressOf(ValueId v) const;

  const Graph &graph_;
  const Layout layout_;
  Device &device_;
  Arena arena_, onHost_;
  DeviceAddress arenaBase_ = nullptr, inputBase_ = nullptr, hostBase_ = nullptr;
  std::vector<ValueId> roots_;       // by value: at the root of its views
  std::vector<int64_t> inputOffset_; // by index of the graph input
  std::vector<bool> fed_;            // likewise
  struct Overwritten {
    ValueId input;
    Tensor fed; // none once the state was carried on
  };
  std::vector<Overwritten> overwritten_;  // inputs that a step leaves with their next state
  bool holdsNext_ = false;                // they do, and it was not carried on
  std::vector<PreparedKernel *> kernels_; // by node; null for views
  std::unique_ptr<Recording> recorded_;   // of a step, where the device keeps one
  int64_t liveBytes_ = 0;                 // in the arena while the last node ran
  std::vector<uint32_t> reads_,
      readsLeft_; // by root: in all, and in this step; outputs have one more
};

} // namespace isthmus
