// A kernel made of oneDNN primitives: steps over buffers in the operands, the results and the
// workspace.
//
// oneDNN is fast on layouts of its own, but our tensors are row-major. So a program runs in rounds,
// each over a part of the batch: a round copies its part into oneDNN's layout, computes while the
// part is still in the cache, and copies the result out. Scratch memory is thus proportional to a
// part, not to the tensors.
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
  // A part of an operand or result; it advances by `step` bytes each round.
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
  // Our own code; it receives the buffers' addresses.
  using Function = std::function<void(char *const *addresses)>;
  void function(When when, llvm::ArrayRef<BufferId> buffers, Function f);

  // `source` itself if its layout is `want`, else a copy of it in that layout.
  BufferId asLayout(When when, BufferId source, const memory::desc &want);

  const memory::desc &desc(BufferId b) const { return buffers_[size_t(b)].desc; }
  int64_t workspaceBytes() const override { return bytes_ + scratchBytes_; }
  void run(const KernelArgs &args) override;

private:
  enum class Place : uint8_t { Operand, Result, Workspace };
  struct Buffer {
    Place place;
    size_t index;
    int64_t step; // in the workspace: the offset
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
