#include "tools/sweep/trial.h"

#include "tools/cli/first_step.h"

namespace isthmus {

llvm::Error keepInRow(llvm::Error e, SweepRow &row) {
  return llvm::handleErrors(
      std::move(e),
      [&](std::unique_ptr<NotWithin> n) -> llvm::Error {
        if (n->kind != ErrorKind::CannotBeMet)
          return llvm::Error(std::move(n));
        row.state = SweepRow::State::NotMet;
        row.figures = n->figures;
        row.problem = n->diags.front().message;
        return llvm::Error::success();
      },
      [&](std::unique_ptr<DiagError> d) -> llvm::Error {
        if (d->kind != ErrorKind::Device && d->kind != ErrorKind::OutOfMemory)
          return llvm::Error(std::move(d));
        row.state = SweepRow::State::Failed;
        row.problem = d->diags.front().message;
        return llvm::Error::success();
      });
}

llvm::Expected<std::optional<Compiled>> tryPlan(SweepSubject &subject, const SweepMode &mode,
                                                Device &device, bool measures, SweepRow &row) {
  auto options = subject.compileOptions(mode);
  if (!options)
    return options.takeError();
  if (measures)
    options->firstStep = firstStepOn(device, subject.given(), subject.options().seed);
  auto c = compiled(Graph(subject.graph()), *options, device.target());
  if (!c) {
    if (llvm::Error e = keepInRow(c.takeError(), row))
      return e;
    return std::nullopt;
  }
  if (c->wasInterrupted)
    return interruptedError();
  row.state = SweepRow::State::Planned;
  row.isPlanned = true;
  row.figures = c->figures;
  return std::optional<Compiled>(std::move(*c));
}

} // namespace isthmus
