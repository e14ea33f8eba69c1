// The last steps of compile(): problem, plan, rewrite and layout.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// `given` is differentiated and lowered. Its clones are dropped and planned anew, unless the plan
// choice keeps them. Errors: NotWithin, and the errors of policies, extractProblem and place.
llvm::Expected<Compiled> planned(Graph given, const CompileOptions &o, const Target &target);

// How to search for plans; `wasInterrupted` is set if the caller's progress ends the search.
plan::SearchOptions searchOptions(const CompileOptions &o, bool &wasInterrupted);

// The same limit on the cost of a plan, as a share of `cost`, that `mostAdded` is as a share of
// `of`.
double asShareOf(double cost, double mostAdded, double of);
// Whether a fixed policy that keeps less than everything is asked for.
bool asksForPolicy(const CompileOptions &o);

// Whether a plan adds more than `mostAdded`, a share of the step's cost.
bool isTooDear(double overhead, std::optional<double> mostAdded);
// NotWithin, if the plan of these figures does; else success.
llvm::Error checkAdded(const Figures &f, std::optional<double> mostAdded);

// The placement of a device's nodes, within the budget if one is found, with more effort than is
// usual where that is needed: the planner may have placed them so.
llvm::Expected<Layout> placedWithin(const Graph &g, const Target &target,
                                    std::optional<int64_t> budgetBytes);
// For a graph that was planned before: notes that it was planned for another target. If its arena,
// in `f`, exceeds the budget on its record, that is NotWithin or a note, as the options say.
llvm::Error checkRecord(const GraphRecord &r, Figures &f, const CompileOptions &o,
                        const Target &target);

// As budgetNotMet; the remedy suits the limit on the added cost.
llvm::Error budgetNotMetAt(const Figures &f, int64_t budgetBytes, std::optional<double> mostAdded);

// Notes that the plan of the given graph is lost, because the step is divided anew, if the choice
// of the plan is AsItIs and so does not say so itself.
void noteLostPlan(const Graph &given, const CompileOptions &o);

// Sets the numbers of nodes of each kind that `g` has.
void countNodes(Figures &f, const Graph &g);

} // namespace isthmus
