// A kernel made of oneDNN primitives: steps over buffers that lie in operands, results and
// workspace.
//
// oneDNN is fast on layouts of its own, tensors come and go row-major. So a program runs in rounds,
// each over a part of the batch: the part is copied into oneDNN's layout, worked on while it is
// still in the cache, and copied out. The copies are as large as a part, not as the tensors.
#pragma once

#include "kernels/onednn/dnnl.h"
#include <functional>

namespace isthmus::onednn {

class Program : public PreparedKernel {
public:
  Program(int threads, int64_t rounds) : threads_(threads), rounds_(rounds) {}

  enum class When : uint8_t {
    Once,  // before the first round
    Each,  // in each round
    First, // in the first round
    Later, // in the rounds after the first
    Last   // in the last round
  };

  using BufferId = int;
  // A part of an operand or result that moves by `step` bytes from round to round.
  BufferId operand(size_t i, const memory::desc &desc, int64_t step = 0) {
    return add({Place::Operand, i, step, desc});
  }
  BufferId result(size_t i, const memory::desc &desc, int64_t step = 0) {
    return add({Place::Result, i, step, desc});
  }
  BufferId workspace(const memory::desc &desc);

  struct Argument {
    int name; // DNNL_ARG_...
    BufferId buffer;
  };
  void primitive(When when, const dnnl::primitive &p, const memory::desc &scratchpad,
                 llvm::ArrayRef<Argument> arguments);
  // A copy from one layout to another; `accumulate` adds instead.
  void reorder(When when, BufferId from, BufferId to, bool accumulate = false);
  // Code of ours, handed the buffers' addresses.
  using Function = std::function<void(char *const *addresses)>;
  void function(When when, llvm::ArrayRef<BufferId> buffers, Function f);

  // `source`, or a copy of it in the layout `want` if that is another.
  BufferId asLayout(When when, BufferId source, const memory::desc &want);

  const memory::desc &desc(BufferId b) const { return buffers_[size_t(b)].desc; }
  int64_t workspaceBytes() const override { return bytes_ + scratchBytes_; }
  void run(const KernelArgs &args) override;

private:
  enum class Place : uint8_t { Operand, Result, Workspace };
  struct Buffer {
    Place place;
    size_t index;
    int64_t step; // workspace: its offset
    memory::desc desc;
    memory handle;
  };
  struct Step {
    When when;
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<BufferId> buffers;
    memory scratch;
    Function function;
  };

  BufferId add(Buffer b);
  bool isDue(When when, int64_t round) const;

  int threads_;
  int64_t rounds_, bytes_ = 0, scratchBytes_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  dnnl::stream stream_{engine()};
};

} // namespace isthmus::onednn
