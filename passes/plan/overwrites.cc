#include "passes/plan/overwrites.h"

#include "passes/plan/op_name.h"

#include <algorithm>

namespace isthmus::plan {

std::vector<std::vector<OpIndex>> overwritersOfReads(const Problem &p) {
  std::vector<OpIndex> by(p.ops.size(), Op::kNone); // by pinned op: its overwriter
  bool any = false;
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    for (uint32_t k : p.ops[i].overwrites) {
      by[p.ops[i].inputs[k].op] = i;
      any = true;
    }
  if (!any)
    return {};
  std::vector<std::vector<OpIndex>> out(p.ops.size());
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    std::vector<OpIndex> &mine = out[i];
    for (const Read &r : p.ops[i].inputs) {
      if (by[r.op] != Op::kNone && by[r.op] != i)
        mine.push_back(by[r.op]);
      if (p.ops[r.op].isView()) // which comes before its readers, and is no alternative
        mine.insert(mine.end(), out[r.op].begin(), out[r.op].end());
    }
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
  }
  return out;
}

namespace {

std::string whyWrong(const Problem &p, const Op &op, std::vector<char> &isTaken) {
  for (uint32_t k : op.overwrites) {
    const OpIndex input = op.inputs[k].op;
    if (!p.ops[input].isPinned)
      return "it overwrites " + calledInMessages(p, input) + ", which is not pinned";
    if (isTaken[input]++)
      return calledInMessages(p, input) + " is overwritten twice";
  }
  if (!op.overwrites.empty() && (op.recomputable || op.isAlternative))
    return "it overwrites an input, so it must be an op that runs once";
  return "";
}

} // namespace

std::optional<Fault> faultOfOverwrites(const Problem &p) {
  std::vector<char> isTaken(p.ops.size(), 0); // whether it, or its base, is overwritten
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    if (std::string why = whyWrong(p, p.ops[i], isTaken); !why.empty())
      return Fault{i, why};
  const std::vector<std::vector<OpIndex>> overwriters = overwritersOfReads(p);
  for (OpIndex i = 0; i < overwriters.size(); ++i) {
    const Op &op = p.ops[i];
    for (OpIndex by : overwriters[i])
      if (by < i && !op.isAlternative)
        return Fault{i, "it reads what " + calledInMessages(p, by) + " has overwritten"};
    for (uint32_t k = 0; op.isView() && k < op.inputs.size(); ++k)
      if (k != op.viewOf && isTaken[op.inputs[k].op])
        return Fault{i, "it is a view of something else, and reads what is overwritten"};
    if (op.isView())
      isTaken[i] = isTaken[op.inputs[op.viewOf].op];
  }
  for (const Read &r : p.outputs)
    if (isTaken[r.op])
      return Fault{r.op, "it is an output, and is overwritten"};
  return std::nullopt;
}

Schedule withLateOverwrites(const Problem &p, const Schedule &s) {
  const std::vector<std::vector<OpIndex>> overwriters = overwritersOfReads(p);
  if (overwriters.empty())
    return s;
  std::vector<size_t> lastRead(p.ops.size(), 0); // last step of another op that reads its bytes
  for (size_t step = 0; step < s.size(); ++step)
    for (OpIndex by : overwriters[s[step]])
      lastRead[by] = step;
  std::vector<std::vector<OpIndex>> waiting(s.size());
  Schedule out;
  for (size_t step = 0; step < s.size(); ++step) {
    if (lastRead[s[step]] > step)
      waiting[lastRead[s[step]]].push_back(s[step]);
    else
      out.push_back(s[step]);
    out.insert(out.end(), waiting[step].begin(), waiting[step].end());
  }
  return out;
}

} // namespace isthmus::plan
