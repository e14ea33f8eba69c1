#include "tools/sweep/fit.h"

#include "ir/units.h"
#include "tools/cli/console.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace isthmus {

// For the bar: each mode doubles its index at most that many times, and then bisects.
Fitting::Fitting(const SweepSpec &spec, SweepSubject &subject, Device &device, SweepTable &table)
    : spec_(spec), subject_(subject), device_(device), table_(table),
      bar_("searching", spec.modes.size() * 2 * (llvm::Log2_64_Ceil(spec.counts.size()) + 1)) {}

llvm::Error Fitting::run() {
  for (const SweepMode &mode : spec_.modes) {
    const size_t firstRow = table_.rows.size();
    llvm::Error e = search(mode);
    settle(mode, firstRow);
    if (e)
      return e;
  }
  return llvm::Error::success();
}

// Doubles the index until a plan does not fit, then bisects.
llvm::Error Fitting::search(const SweepMode &mode) {
  size_t fit = 0, beyond = spec_.counts.size(); // spec_.counts[fit - 1] fits
  while (fit < beyond) {
    const bool isBounded = beyond < spec_.counts.size();
    const size_t twice = fit == 0 ? 0 : 2 * fit - 1; // the counts 1, 2, 4, 8
    const size_t next = isBounded ? fit + (beyond - fit) / 2 : std::min(twice, beyond - 1);
    auto does = fits(next, mode);
    if (!does)
      return does.takeError();
    if (*does)
      fit = next + 1;
    else
      beyond = next;
  }
  return llvm::Error::success();
}

llvm::Expected<bool> Fitting::fits(size_t index, const SweepMode &mode) {
  if (interrupt_.happened())
    return interruptedError();
  const int64_t count = spec_.counts[index];
  bar_.at(table_.rows.size(),
          {mode.name, llvm::formatv("{0} {1}", axisName(spec_.axis), count).str()});
  SweepRow row;
  row.at = std::to_string(count);
  row.x = double(count);
  row.mode = mode.name;
  Console::get().setTask(
      llvm::formatv("{0}, {1} {2}", mode.name, axisName(spec_.axis), count).str());
  llvm::Error failed = [&]() -> llvm::Error {
    if (llvm::Error e = subject_.resize(spec_.sizesAt(count))) {
      if (table_.rows.empty())
        return e;
      // The model is too large to be made at all.
      row.problem = plainMessage(std::move(e));
      return llvm::Error::success();
    }
    return tryPlan(subject_, mode, device_, /*measures=*/false, row).takeError();
  }();
  Console::get().setTask("");
  if (failed)
    return failed;
  const bool does = row.isPlanned && row.totalBytes() <= *table_.fitBytes;
  row.fits = does;
  table_.rows.push_back(std::move(row));
  return does;
}

void Fitting::settle(const SweepMode &mode, size_t firstRow) {
  std::stable_sort(table_.rows.begin() + ptrdiff_t(firstRow), table_.rows.end(),
                   [](const SweepRow &a, const SweepRow &b) { return a.x < b.x; });
  FitAnswer answer;
  answer.mode = mode.name;
  for (size_t i = firstRow; i < table_.rows.size(); ++i) {
    if (*table_.rows[i].fits)
      answer.largest = i;
    else if (!answer.next)
      answer.next = i;
  }
  answers_.push_back(std::move(answer));
}

SweepTable proofsOf(const std::vector<FitAnswer> &answers, const SweepTable &t) {
  SweepTable proofs = t;
  proofs.rows.clear();
  for (const FitAnswer &a : answers)
    for (const std::optional<size_t> &row : {a.largest, a.next})
      if (row)
        proofs.rows.push_back(t.rows[*row]);
  return proofs;
}

std::string answerText(const FitAnswer &a, const SweepTable &t) {
  const std::string axis = axisName(t.axis).str();
  std::string text = a.mode + ": ";
  if (a.largest) {
    const SweepRow &r = t.rows[*a.largest];
    text +=
        llvm::formatv("{0} {1} fits, in {2} bytes of {3} (arena {4}, parameters and inputs {5})",
                      axis, r.at, r.totalBytes(), *t.fitBytes, bytesText(r.figures.arenaBytes),
                      bytesText(r.figures.persistentBytes))
            .str();
  } else {
    text += "none that was tried fits";
  }
  if (!a.next)
    return text + "; no larger one was tried";
  const SweepRow &r = t.rows[*a.next];
  text +=
      "; " + r.at + (r.isPlanned ? " takes " + std::to_string(r.totalBytes()) : ": " + r.problem);
  return text;
}

} // namespace isthmus
