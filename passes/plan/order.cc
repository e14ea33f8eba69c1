// A better order before anything is dropped: each run goes to where less is live meanwhile.
//
// An op that makes more than it lets go had better run late, just before its first reader; one that
// lets go more than it makes, as soon as its operands are there. Every such move lowers what is
// live at all runs that it passes, and raises it nowhere else. (Gradients of weights and optimizer
// updates are what moves most.)

#include "passes/plan/search.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

constexpr int kMostPasses = 4;

class Ordering {
public:
  explicit Ordering(Editor &e) : e_(e), t_(e.timeline()), g_(e.graph()) {}

  bool pass(bool late) {
    std::vector<Editor::RunId> runs;
    for (Editor::RunId r = t_.first(); r != t_.end(); r = t_.next(r))
      runs.push_back(r);
    if (late)
      std::reverse(runs.begin(), runs.end());
    bool any = false;
    for (Editor::RunId r : runs) {
      int64_t gain = made(r) - freed(r);
      if (late ? gain <= 0 : gain >= 0)
        continue;
      Editor::RunId before = late ? firstReader(r) : afterOperands(r);
      if (before == r || before == t_.next(r))
        continue;
      e_.move(r, before);
      any = true;
    }
    return any;
  }

private:
  const StorageGraph::Op &op(Editor::RunId r) const { return g_.ops[t_.opOf(r)]; }
  int64_t bytes(Editor::CopyId c) const { return g_.storages[t_.storageOf(c)].bytes; }

  int64_t made(Editor::RunId r) const {
    int64_t sum = 0;
    for (uint32_t k = 0; k < op(r).numMade; ++k)
      if (Editor::CopyId c = t_.made(r, k); !t_.readers(c).empty())
        sum += bytes(c);
    return sum;
  }

  int64_t freed(Editor::RunId r) const {
    int64_t sum = 0;
    for (uint32_t k = 0; k < op(r).reads.size(); ++k)
      if (Editor::CopyId c = t_.readCopy(r, k); t_.lastUse(c) == r)
        sum += bytes(c);
    return sum;
  }

  Editor::RunId firstReader(Editor::RunId r) const {
    Editor::RunId first = t_.end();
    for (uint32_t k = 0; k < op(r).numMade; ++k)
      if (const auto &readers = t_.readers(t_.made(r, k)); !readers.empty())
        if (t_.position(readers.front()) < t_.position(first))
          first = readers.front();
    return first;
  }

  Editor::RunId afterOperands(Editor::RunId r) const {
    Editor::RunId last = Editor::kNone;
    for (uint32_t k = 0; k < op(r).reads.size(); ++k)
      if (Editor::RunId m = t_.maker(t_.readCopy(r, k));
          last == Editor::kNone || t_.position(m) > t_.position(last))
        last = m;
    return last == Editor::kNone ? r : t_.next(last); // what reads nothing stays
  }

  Editor &e_;
  const Timeline &t_;
  const StorageGraph &g_;
};

} // namespace

void improveOrder(Editor &e) {
  Ordering ordering(e);
  for (int i = 0; i < kMostPasses; ++i) {
    bool any = ordering.pass(/*late=*/true);
    any |= ordering.pass(/*late=*/false);
    if (!any)
      break;
  }
  e.commit();
}

} // namespace isthmus::plan
