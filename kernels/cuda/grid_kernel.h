// Makes a kernel for the table from a function of the call, the pointers and the queue. Most of our
// GPU kernels are built this way.
#pragma once

#include "kernels/cuda/grid.h"
#include "kernels/element/broadcast.h"
#include "kernels/element/dtype.h"
#include "runtime/kernel.h"

namespace isthmus::cuda {

using namespace element;

// The arguments of a GridFunction, which makes one launch or a few. Pointers are device pointers:
// only kernels may dereference them.
struct Launch {
  const OpCall &call;
  const KernelArgs &args;
  const Queue &queue;

  template <typename T> const T *operand(size_t i) const {
    return static_cast<const T *>(args.operands[i]);
  }
  template <typename T> T *result(size_t i) const { return static_cast<T *>(args.results[i]); }
  template <typename T> T *workspace() const { return static_cast<T *>(args.workspace); }
};

using GridFunction = void (*)(const Launch &);
using WorkspaceFunction = int64_t (*)(const OpCall &); // bytes

class GridKernel : public PreparedKernel {
public:
  GridKernel(const OpCall &call, const Queue &queue, GridFunction run, int64_t workspaceBytes)
      : attrs_(*call.attrs), call_(call), queue_(queue), run_(run),
        workspaceBytes_(workspaceBytes) {
    call_.attrs = &attrs_; // a copy: the kernel may outlive the graph
  }
  int64_t workspaceBytes() const override { return workspaceBytes_; }
  void run(const KernelArgs &args) override { run_({call_, args, queue_}); }

private:
  Attrs attrs_;
  OpCall call_;
  const Queue &queue_;
  GridFunction run_;
  int64_t workspaceBytes_;
};

// The queue of the device that the kernel is prepared for. Without a device the emulation runs
// launches immediately.
inline const Queue &queueOf(const KernelOptions &options) {
  static const Queue none;
  return options.queue ? *static_cast<const Queue *>(options.queue) : none;
}

// An entry for the table: `table.add({"sum", "cuda", prepareGrid<runSum, sumWorkspace>})`.
template <GridFunction run, WorkspaceFunction workspace = nullptr>
std::unique_ptr<PreparedKernel> prepareGrid(const OpCall &call, const KernelOptions &options) {
  int64_t bytes = 0;
  if constexpr (workspace != nullptr)
    bytes = workspace(call);
  return std::make_unique<GridKernel>(call, queueOf(options), run, bytes);
}

// Runs K::run<T>(launch), where T is the element type of the first operand or the first result.
template <typename K> void runByOperand(const Launch &l) {
  dispatchFloat(l.call.operands[0].dtype,
                [&](auto tag) { K::template run<typename decltype(tag)::type>(l); });
}
template <typename K> void runByResult(const Launch &l) {
  dispatchFloat(l.call.results[0].dtype,
                [&](auto tag) { K::template run<typename decltype(tag)::type>(l); });
}

} // namespace isthmus::cuda
