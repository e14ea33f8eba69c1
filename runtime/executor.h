// Runs a graph on one device, in the order of its nodes, inside one arena.
#pragma once

#include "ir/graph.h"
#include "ir/layout.h"
#include "runtime/arena.h"
#include "runtime/device.h"
#include "runtime/transport.h"
#include <map>

namespace isthmus {

// The number of nodes by the library of their kernel, and the number on slow substitutes.
struct KernelCounts {
  std::map<std::string, size_t> byLibrary;
  size_t substitutes = 0;
};

class Executor {
public:
  // Prepares every kernel, then makes one allocation for the arena, one for the graph's inputs and,
  // if the layout needs it, one in host memory. `graph` and `device` must outlive the executor.
  // Errors (exit code 5 where the device fails): no kernel, a layout made for another target,
  // memory.
  //
  // `shared` has a tensor, or none, for each graph input, or is empty. Where the device computes in
  // the host's memory, steps read these tensors in place, so that parameters are not in memory
  // twice; elsewhere, and for inputs that steps overwrite, they are fed by copying.
  //
  // `transport` carries the messages of the graph, which is then the program of one device; it must
  // outlive the executor.
  static llvm::Expected<std::unique_ptr<Executor>> create(const Graph &graph, const Layout &layout,
                                                          Device &device,
                                                          llvm::ArrayRef<Tensor> shared = {},
                                                          Transport *transport = nullptr);
  ~Executor();

  // Sets the value of graph input `v` at the beginning of each step from now on. If steps overwrite
  // `v`, `t` is kept until carryState(); an input that was shared reads the new tensor in place
  // too. Error if the type of `t` is not that of `v`.
  llvm::Error feed(ValueId v, const Tensor &t);

  // Runs all nodes. Every input must have been fed, except on a device that does not compute.
  // `progress`, if set, is called after each node with the number of nodes done, except when the
  // device replays a recorded step.
  llvm::Error step(const RandomKey &random, const std::function<void(size_t)> &progress = {});

  // The same, but each node completes before the next begins, and `after` is called between them.
  struct NodeRun {
    NodeId node;
    int64_t liveBytes; // in the arena while the node ran, workspace included
  };
  llvm::Error stepByNode(const RandomKey &random, llvm::function_ref<void(const NodeRun &)> after);

  // Call it after a step: inputs whose next state is an output of the graph take that value. From
  // then on, inputs that a step overwrites must be carried or fed again after each step.
  llvm::Error carryState();

  // The value of an output after a step, or of an input. An input that the step overwrote has its
  // next state.
  llvm::Expected<Tensor> fetch(ValueId v);

  // Call it after a step, because a device may change kernels at their first launch.
  KernelCounts kernelCounts() const;
  int64_t arenaBytes() const { return layout_.arenaBytes; }
  int64_t measuredPeakBytes() const { return arena_.peakBytes(); }
  int64_t hostBytes() const { return layout_.hostBytes; } // host memory in use

private:
  Executor(const Graph &graph, const Layout &layout, Device &device, Transport *transport);
  llvm::Error prepare();
  llvm::Error allocate();
  bool mayShare(ValueId v, const Tensor &t) const;
  llvm::Error beginStep(const RandomKey &random);
  llvm::Error runNodes(llvm::function_ref<llvm::Error(NodeId)> after);
  llvm::Error runNode(NodeId id);
  void endTransfersBefore(NodeId end);
  llvm::Error launch(NodeId id, int64_t workspace);
  llvm::Error startTransfer(NodeId id);
  llvm::Error startMessage(NodeId id);
  llvm::Error waitFor(NodeId started);
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
  Transport *const transport_;
  Arena arena_, onHost_;
  DeviceAddress arenaBase_ = nullptr, inputBase_ = nullptr, hostBase_ = nullptr;
  std::vector<ValueId> roots_;       // by value: the root of its views
  std::vector<int64_t> within_;      // by value: where it begins in the storage of its root
  std::vector<int64_t> inputOffset_; // by index of the graph input
  std::vector<Tensor> shared_;       // likewise; null: the input has memory of the executor's
  std::vector<bool> fed_;            // by index of the graph input
  struct Overwritten {
    ValueId input;
    Tensor fed; // null once the state was carried
  };
  std::vector<Overwritten> overwritten_;  // inputs that a step overwrites with their next state
  bool holdsNext_ = false;                // they hold it, and it was not carried
  std::vector<PreparedKernel *> kernels_; // by node; null for views, transfers and messages
  std::vector<uint64_t> messages_;        // by node: the transport's number of its message
  std::unique_ptr<Recording> recorded_;   // null if the device made none
  int64_t liveBytes_ = 0;                 // in the arena while the last node ran
  std::vector<uint32_t> reads_,
      readsLeft_; // by root: reads per step, and reads left; an output counts as one more read
};

} // namespace isthmus
