#include "tools/sweep/sweep.h"

#include "tools/cli/budget.h"
#include "tools/cli/console.h"
#include "tools/cli/execute.h"
#include <algorithm>

namespace isthmus {
namespace {

double medianOf(std::vector<double> s) {
  std::sort(s.begin(), s.end());
  const size_t middle = s.size() / 2;
  return s.size() % 2 ? s[middle] : (s[middle - 1] + s[middle]) / 2;
}

// While it lives, bars belong to the task.
class Task {
public:
  explicit Task(const std::string &name) { Console::get().setTask(name); }
  ~Task() { Console::get().setTask(""); }
};

} // namespace

ModelSizes SweepSpec::sizesAt(int64_t count) const {
  ModelSizes sizes = fixed;
  if (axis != SweepAxis::Budget)
    (axis == SweepAxis::Batch ? sizes.batch : sizes.depth) = count;
  return sizes;
}

// Finds sizes that the model cannot have before the first plan, if that is quick.
llvm::Error Sweeping::checkPoints() {
  if (spec_.axis == SweepAxis::Budget)
    return subject_.resize(spec_.fixed);
  if (!subject_.isZoo())
    return llvm::Error::success();
  for (int64_t count : spec_.counts) {
    if (interrupt_.happened())
      return interruptedError();
    if (llvm::Error e = subject_.resize(spec_.sizesAt(count)))
      return e;
  }
  return llvm::Error::success();
}

llvm::Error Sweeping::run() {
  if (llvm::Error e = checkPoints())
    return e;
  // Plans that are compared run in turns: the budgets of one model, the modes of one size.
  const bool isOneModel = spec_.axis == SweepAxis::Budget;
  std::vector<Planned> planned;
  for (size_t point = 0; point < spec_.points(); ++point) {
    if (llvm::Error e = planPoint(point, planned))
      return e;
    if (isOneModel && point + 1 < spec_.points())
      continue;
    if (llvm::Error e = runAll(planned))
      return e;
    planned.clear();
  }
  return llvm::Error::success();
}

llvm::Error Sweeping::planPoint(size_t point, std::vector<Planned> &planned) {
  if (spec_.axis != SweepAxis::Budget)
    if (llvm::Error e = subject_.resize(spec_.sizesAt(spec_.counts[point])))
      return e;
  for (const SweepMode &mode : spec_.modes)
    if (llvm::Error e = planAt(point, mode, planned))
      return e;
  return llvm::Error::success();
}

llvm::Error Sweeping::planAt(size_t point, const SweepMode &mode, std::vector<Planned> &planned) {
  if (interrupt_.happened())
    return interruptedError();
  SweepRow row;
  SweepMode now = mode;
  row.mode = mode.name;
  if (spec_.axis == SweepAxis::Budget) {
    row.at = spec_.budgets[point].text;
    now.plan.budget = spec_.budgets[point].budget;
  } else {
    row.at = std::to_string(spec_.counts[point]);
  }
  bar_.at(table_.rows.size(), {axisName(spec_.axis).str() + " " + row.at, row.mode});
  const Task task(llvm::formatv("{0} of {1} ({2} {3}, {4})", table_.rows.size() + 1,
                                spec_.points() * spec_.modes.size(), axisName(spec_.axis), row.at,
                                row.mode)
                      .str());
  auto plan = tryPlan(subject_, now, device_, /*measures=*/true, row);
  if (!plan)
    return plan.takeError();
  place(row, *plan);
  if (*plan && spec_.runs)
    planned.push_back({table_.rows.size(), std::move(**plan), {}});
  table_.rows.push_back(std::move(row));
  return llvm::Error::success();
}

// Sets the place of a row on the axis. For the budget `min` this is the least budget found.
void Sweeping::place(SweepRow &row, const std::optional<Compiled> &plan) const {
  if (spec_.axis != SweepAxis::Budget) {
    row.x = double(std::stoll(row.at));
    return;
  }
  const double baseline = double(row.figures.baselinePeakBytes);
  const Budget budget = *parseBudget(row.at);
  const double bytes = plan && plan->budgetBytes ? double(*plan->budgetBytes)
                                                 : double(budget.of(row.figures.baselinePeakBytes));
  if (!table_.isOfShares)
    row.x = bytes;
  else if (budget.kind == Budget::Share)
    row.x = 100 * budget.share;
  else
    row.x = baseline > 0 ? 100 * bytes / baseline : 0;
}

// Runs rounds over the plans, one step of each, so that other load of the machine affects all of
// them. Only one arena exists at a time.
llvm::Error Sweeping::runAll(std::vector<Planned> &planned) {
  const int rounds = device_.computes() ? spec_.steps : 1;
  ProgressBar bar("running", size_t(rounds) * planned.size());
  size_t done = 0;
  for (int round = 0; round < rounds; ++round)
    for (Planned &p : planned) {
      SweepRow &row = table_.rows[p.row];
      bar.at(done++, {axisName(spec_.axis).str() + " " + row.at, row.mode});
      if (interrupt_.happened())
        return interruptedError();
      if (row.state == SweepRow::State::Failed) // in an earlier round
        continue;
      const Task task(llvm::formatv("{0} {1}, {2}, round {3} of {4}", axisName(spec_.axis), row.at,
                                    row.mode, round + 1, rounds)
                          .str());
      if (llvm::Error e = runOnce(p))
        if (llvm::Error ends = keepInRow(std::move(e), row))
          return ends;
    }
  return llvm::Error::success();
}

// Times one step, after an untimed one that fills caches and chooses kernels.
llvm::Error Sweeping::runOnce(Planned &p) {
  ExecuteOptions options;
  options.steps = device_.computes() ? 2 : 1;
  options.seed = subject_.options().seed;
  options.inputs = subject_.given();
  Report report(p.plan.figures);
  if (auto session = execute(p.plan, device_, options, report); !session)
    return session.takeError();
  SweepRow &row = table_.rows[p.row];
  row.measuredPeakBytes = report.measuredPeakBytes.front();
  if (!device_.computes())
    return llvm::Error::success();
  p.seconds.push_back(report.stepSeconds.back());
  row.stepSeconds = medianOf(p.seconds);
  return llvm::Error::success();
}

} // namespace isthmus
