#include "kernels/onednn/program.h"

#include "ir/check.h"

namespace isthmus::onednn {
namespace {
int64_t roundedUp(size_t bytes) { return (int64_t(bytes) + 63) / 64 * 64; }
} // namespace

Program::BufferId Program::add(Buffer b) {
  b.handle = memory(b.desc, engine(), DNNL_MEMORY_NONE);
  buffers_.push_back(std::move(b));
  return int(buffers_.size()) - 1;
}

Program::BufferId Program::workspace(const memory::desc &desc) {
  int64_t offset = bytes_;
  bytes_ += roundedUp(desc.get_size());
  return add({Place::Workspace, 0, offset, desc});
}

void Program::primitive(When when, const dnnl::primitive &p, const memory::desc &scratchpad,
                        llvm::ArrayRef<Argument> arguments) {
  Step s;
  s.when = when;
  s.primitive = p;
  for (const Argument &a : arguments) {
    s.arguments.push_back({a.name, buffers_[size_t(a.buffer)].handle.get()});
    s.buffers.push_back(a.buffer);
  }
  if (scratchpad.get_size() > 0) {
    // Steps run one after another, so their scratchpads share one region after the buffers.
    s.scratch = memory(scratchpad, engine(), DNNL_MEMORY_NONE);
    s.arguments.push_back({DNNL_ARG_SCRATCHPAD, s.scratch.get()});
    scratchBytes_ = std::max(scratchBytes_, roundedUp(scratchpad.get_size()));
  }
  steps_.push_back(std::move(s));
}

void Program::reorder(When when, BufferId from, BufferId to, bool accumulate) {
  dnnl::primitive_attr attr = userScratchpad();
  if (accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  dnnl::reorder::primitive_desc pd(engine(), desc(from), engine(), desc(to), attr);
  primitive(when, dnnl::reorder(pd), pd.scratchpad_desc(),
            {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Program::function(When when, llvm::ArrayRef<BufferId> buffers, Function f) {
  Step s;
  s.when = when;
  s.buffers.assign(buffers.begin(), buffers.end());
  s.function = std::move(f);
  steps_.push_back(std::move(s));
}

Program::BufferId Program::asLayout(When when, BufferId source, const memory::desc &want) {
  if (desc(source) == want)
    return source;
  BufferId copy = workspace(want);
  reorder(when, source, copy);
  return copy;
}

bool Program::isDue(When when, int64_t round) const {
  switch (when) {
  case When::Each:
    return true;
  case When::Once:
  case When::First:
    return round == 0;
  case When::Later:
    return round > 0;
  case When::Last:
    return round + 1 == rounds_;
  }
  ISTHMUS_UNREACHABLE("when");
}

void Program::run(const KernelArgs &args) {
  TeamSize team(threads_);
  auto *workspace = static_cast<char *>(args.workspace);
  llvm::SmallVector<char *, 8> address(buffers_.size());
  for (int64_t round = 0; round < rounds_; ++round) {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      Buffer &b = buffers_[i];
      // oneDNN's handles are not const, but it does not write to its inputs.
      char *base = b.place == Place::Operand
                       ? static_cast<char *>(const_cast<void *>(args.operands[b.index]))
                   : b.place == Place::Result ? static_cast<char *>(args.results[b.index])
                                              : workspace;
      address[i] = base + b.step * (b.place == Place::Workspace ? 1 : round);
    }
    for (Step &s : steps_) {
      if (!isDue(s.when, round))
        continue;
      if (s.function) {
        llvm::SmallVector<char *, 4> at;
        for (BufferId b : s.buffers)
          at.push_back(address[size_t(b)]);
        s.function(at.data());
        continue;
      }
      for (BufferId b : s.buffers)
        dnnl_memory_set_data_handle(buffers_[size_t(b)].handle.get(), address[size_t(b)]);
      if (s.scratch)
        dnnl_memory_set_data_handle(s.scratch.get(), workspace + bytes_);
      dnnl_status_t status = dnnl_primitive_execute(s.primitive.get(), stream_.get(),
                                                    int(s.arguments.size()), s.arguments.data());
      ISTHMUS_CHECK(status == dnnl_success, "a prepared oneDNN primitive failed");
    }
  }
  dnnl_stream_wait(stream_.get());
}

} // namespace isthmus::onednn
