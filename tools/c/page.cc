#include "tools/c/handles.h"
#include "tools/view/problem_page.h"
#include "tools/view/snapshot_page.h"

using namespace isthmus;
using namespace isthmus::c;

static std::string textOr(const char *text, const std::string &byDefault) {
  return text ? text : byDefault;
}

static std::vector<std::string> listOf(const char *const *texts, size_t count) {
  std::vector<std::string> all;
  for (size_t i = 0; texts && i < count; ++i)
    all.push_back(textOr(texts[i], ""));
  return all;
}

static ProblemLabels labelsOf(const plan::Problem &p, const isthmus_page_options &o) {
  const size_t n = p.ops.size();
  ProblemLabels labels;
  labels.names = listOf(o.names, n);
  labels.ops = listOf(o.ops, n);
  labels.sources = listOf(o.sources, n);
  if (o.chunks)
    labels.isChunk.assign(o.chunks, o.chunks + n);
  size_t at = 0;
  for (size_t i = 0; o.types && i < n; ++i) {
    labels.types.push_back(listOf(o.types + at, p.ops[i].outputBytes.size()));
    at += p.ops[i].outputBytes.size();
  }
  labels.reservedBytes = std::max<int64_t>(0, o.reserved_bytes);
  return labels;
}

isthmus_status isthmus_plan_page(const isthmus_problem *problem, const isthmus_plan *plan,
                                 const isthmus_page_options *options, isthmus_text **page,
                                 isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(page);
    *page = nullptr;
    ISTHMUS_NOT_NULL(problem);
    ISTHMUS_NOT_NULL(plan);
    ISTHMUS_NOT_NULL(options);
    const auto o = grown(*options, sizeof *options);
    if (!o)
      return wrongSize("isthmus_page_options", options->size, sizeof *options, sizeof *options,
                       error);
    if (isthmus_status status = checkFits(*problem, *plan, error))
      return status;
    const plan::Problem &p = problem->problem;
    ProblemPage about{textOr(o->title, problem->name), problem->name, textOr(o->target, "")};
    about.plan = plan->result;
    if (o->budget_bytes > 0)
      about.budgetBytes = o->budget_bytes;
    for (size_t i = 0; o->price_peak && o->price_cost && i < o->num_prices; ++i)
      about.curve.push_back({o->price_peak[i], o->price_cost[i]});
    about.besideName = textOr(o->beside_name, "without a plan");
    if (!o->snapshot)
      about.beside = plan::sourceOrder(p);
    if (o->beside && !o->snapshot) {
      if (isthmus_status status = checkFits(*problem, *o->beside, error))
        return status;
      about.beside = o->beside->result.schedule;
    }
    Page made = pageOf(p, about, labelsOf(p, *o));
    if (o->snapshot)
      if (llvm::Error e = addSnapshot(made, about.besideName, {o->snapshot, o->snapshot_length}))
        return fail(std::move(e), error);
    return give(page, pageText(made));
  });
}
