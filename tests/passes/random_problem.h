// Random problems, and the peaks of their schedules by definition: a slow simulation that shares no
// code with the planner or its evaluation.
#pragma once

#include "passes/plan/problem.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace isthmus::plan {

using Rng = std::mt19937_64;
inline uint64_t below(Rng &r, uint64_t n) { return r() % n; }

// A forward part and a backward part that reads from both, with views, several outputs, workspaces
// and donations. With `plainViews`, views read only their base.
inline Problem randomProblem(Rng &rng, size_t most = 20, bool plainViews = false) {
  Problem p;
  p.alignment = below(rng, 2) ? 1 : 8;
  size_t forward = 3 + below(rng, most), total = forward + 3 + below(rng, most);
  for (size_t i = 0; i < 2; ++i) {
    Op in;
    in.name = "in" + std::to_string(i);
    in.isPinned = true;
    in.outputBytes = {100};
    p.ops.push_back(in);
  }
  for (size_t i = 2; i < total + 2; ++i) {
    Op op;
    op.name = "op" + std::to_string(i);
    op.phase = i < forward + 2 ? plan::OpPhase::Forward : plan::OpPhase::Backward;
    op.cost = double(1 + below(rng, 9));
    op.recomputable = below(rng, 8) != 0;
    size_t reads = 1 + below(rng, 3);
    for (size_t k = 0; k < reads; ++k) {
      OpIndex from = below(rng, 3) ? OpIndex(i - 1 - below(rng, std::min<size_t>(i, 4)))
                                   : OpIndex(below(rng, i));
      op.inputs.push_back(
          {from, uint32_t(below(rng, std::max<size_t>(1, p.ops[from].outputBytes.size())))});
    }
    if (below(rng, 6) == 0) {
      if (plainViews)
        op.inputs.resize(1);
      op.viewOf = uint32_t(below(rng, op.inputs.size()));
      op.cost = 0;
    } else {
      for (size_t k = 0, n = 1 + below(rng, 2); k < n; ++k)
        op.outputBytes.push_back(int64_t(1 + below(rng, 60)));
      op.workspace = below(rng, 4) ? 0 : int64_t(below(rng, 40));
      if (below(rng, 2))
        op.donations.push_back({0, uint32_t(below(rng, op.inputs.size()))});
    }
    p.ops.push_back(op);
  }
  for (size_t k = 0; k < 3; ++k)
    p.outputs.push_back({OpIndex(2 + below(rng, total)), 0});
  return p;
}

// Adds updates that overwrite pinned storages in place, after all their readers.
inline void addOverwrites(Problem &p, Rng &rng) {
  const size_t numOps = p.ops.size();
  for (Op &op : p.ops) // a view reads only its base, which may be overwritten
    if (op.isView()) {
      op.inputs = {op.inputs[op.viewOf]};
      op.viewOf = 0;
    }
  for (OpIndex pinned = 0; pinned < numOps && p.ops[pinned].isPinned; ++pinned) {
    OpIndex read = OpIndex(numOps - 1 - below(rng, std::min<size_t>(numOps - 2, 8)));
    while (p.ops[read].isView())
      --read;
    if (below(rng, 3) == 0 || p.ops[read].isPinned)
      continue;
    Op op;
    op.name = "update" + std::to_string(p.ops.size());
    op.phase = OpPhase::Update;
    op.cost = double(below(rng, 4));
    op.recomputable = false;
    op.inputs = {{read, 0}, {pinned, 0}};
    op.outputBytes = {0};
    op.overwrites = {1};
    p.outputs.push_back({OpIndex(p.ops.size()), 0});
    p.ops.push_back(op);
  }
  // A view of an overwritten storage is no output.
  std::vector<bool> isGone(p.ops.size());
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    for (uint32_t k : p.ops[i].overwrites)
      isGone[p.ops[i].inputs[k].op] = true;
  }
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    if (p.ops[i].isView() && isGone[p.ops[i].inputs[p.ops[i].viewOf].op])
      isGone[i] = true;
  std::erase_if(p.outputs, [&](const Read &r) { return isGone[r.op]; });
  std::erase_if(p.forwardOutputs, [&](OpIndex i) { return isGone[i]; });
}

// Adds other forms of some ops, and transfers to the host and back. An alternative may make one of
// two results, and it may read any value. All alternatives may run again.
inline void addAlternatives(Problem &p, Rng &rng, uint64_t most) {
  const size_t numOps = p.ops.size();
  auto add = [&](Op op, std::vector<Read> inputs, std::vector<int64_t> bytes) {
    op.name = "optional" + std::to_string(p.ops.size());
    op.isAlternative = true;
    op.inputs = std::move(inputs);
    op.outputBytes = std::move(bytes);
    p.ops.push_back(std::move(op));
    return OpIndex(p.ops.size() - 1);
  };
  for (uint64_t k = below(rng, most + 1); k > 0; --k) {
    OpIndex of = OpIndex(below(rng, numOps));
    if (p.ops[of].isPinned || p.ops[of].isView() || !p.ops[of].overwrites.empty())
      continue;
    std::vector<int64_t> bytes = p.ops[of].outputBytes;
    Op made;
    made.of = of;
    made.phase = below(rng, 3) ? plan::OpPhase::Forward : plan::OpPhase::Backward;
    const bool isOne = bytes.size() > 1 && below(rng, 2);
    if (isOne) {
      made.ofOutput = uint32_t(below(rng, bytes.size()));
      bytes = {bytes[made.ofOutput]};
    }
    if (below(rng, 2)) {
      std::vector<Read> inputs = p.ops[of].inputs;
      if (below(rng, 3) == 0) {
        OpIndex from = OpIndex(below(rng, numOps));
        inputs = {{from, 0}};
      }
      made.cost = double(below(rng, 9));
      made.workspace = below(rng, 4) ? 0 : int64_t(below(rng, 40));
      if (!inputs.empty() && below(rng, 3) == 0)
        made.donations.push_back({0, 0});
      if (!inputs.empty() && below(rng, 2)) { // it reads something made from an input
        Op helper;
        helper.cost = double(below(rng, 4));
        helper.phase = below(rng, 2) ? plan::OpPhase::Forward : made.phase;
        Read &read = inputs[below(rng, inputs.size())];
        read = {add(helper, {read}, {int64_t(1 + below(rng, 20))}), 0};
      }
      add(made, inputs, bytes);
      continue;
    }
    std::vector<Read> copied;
    for (uint32_t o = 0; o < bytes.size(); ++o)
      copied.push_back({of, isOne ? made.ofOutput : o});
    Op start;
    start.transfer = Op::Transfer::StartOffload;
    start.transferTime = double(1 + below(rng, 9));
    OpIndex out = add(start, copied, {});
    Op wait;
    wait.transfer = Op::Transfer::WaitOffload;
    OpIndex onHost = add(wait, {{out, 0}}, {0});
    start.transfer = Op::Transfer::StartPrefetch;
    start.phase = made.phase;
    OpIndex back = add(start, {{onHost, 0}}, bytes);
    made.transfer = Op::Transfer::WaitPrefetch;
    std::vector<Read> waited;
    for (uint32_t o = 0; o < bytes.size(); ++o)
      waited.push_back({back, o});
    add(made, waited, bytes);
  }
}

// The peak by definition: the live storages at a step are those that exist and that are made, are
// read, or will be read, at or after the step, or that live to the end. The result is -1 if an op
// reads what was overwritten.
struct Slow {
  struct Copy {
    size_t born;
    int64_t bytes;
    std::set<size_t> reads;
    bool stays = false;
  };

  static int64_t peak(const Problem &p, const Schedule &s) {
    std::vector<Copy> copies;
    std::map<std::pair<OpIndex, uint32_t>, int> newest; // index of its instance; below 0: pinned
    std::vector<std::vector<int>> read(s.size()), made(s.size());
    std::map<OpIndex, std::vector<int>> held; // by start of an offload: what it reads
    for (OpIndex i = 0; i < p.ops.size(); ++i)
      if (p.ops[i].isPinned)
        newest[{i, 0}] = -1 - int(i);
    std::set<int> overwritten;
    bool isValid = true;
    for (size_t t = 0; t < s.size(); ++t) {
      const Op &op = p.ops[s[t]];
      auto touch = [&](int c) {
        isValid &= !overwritten.count(c);
        if (c >= 0)
          copies[c].reads.insert(t);
      };
      for (const Read &r : op.inputs) {
        if (auto h = held.find(r.op); h != held.end()) {
          for (int c : h->second)
            touch(c);
          continue;
        }
        int c = newest.at({r.op, r.output});
        read[t].push_back(c);
        touch(c);
      }
      for (uint32_t k : op.overwrites)
        overwritten.insert(read[t][k]);
      if (op.transfer == Op::Transfer::StartOffload)
        held[s[t]] = read[t];
      if (op.isView()) {
        newest[{s[t], 0}] = read[t][op.viewOf];
        continue;
      }
      for (uint32_t o = 0; o < op.outputBytes.size(); ++o) {
        if (op.transfer == Op::Transfer::WaitPrefetch) {
          newest[{s[t], o}] = read[t][o];
        } else {
          newest[{s[t], o}] = int(copies.size());
          made[t].push_back(int(copies.size()));
          copies.push_back({t, p.rounded(op.outputBytes[o]), {}, false});
        }
        if (op.of != Op::kNone)
          newest[{op.of, op.ofOutput == Op::kAllOutputs ? o : op.ofOutput}] = newest[{s[t], o}];
      }
    }
    for (const Read &r : p.outputs)
      if (int c = newest.at({r.op, r.output}); c >= 0)
        copies[c].stays = true;
    auto dies = [&](const Copy &c, size_t t) {
      return !c.stays && c.born < t && !c.reads.empty() && *c.reads.rbegin() == t;
    };
    int64_t most = 0;
    for (size_t t = 0; t < s.size(); ++t) {
      const Op &op = p.ops[s[t]];
      int64_t live = p.rounded(op.workspace);
      for (const Copy &c : copies)
        if (c.born <= t && (c.born == t || c.stays || (!c.reads.empty() && *c.reads.rbegin() >= t)))
          live += c.bytes;
      std::set<int> taken;
      std::set<uint32_t> placed;
      for (const Op::Donation &r : op.donations) {
        int c = read[t][r.input];
        if (c < 0 || taken.count(c) || placed.count(r.output) || !dies(copies[c], t) ||
            copies[c].bytes < copies[made[t][r.output]].bytes)
          continue;
        taken.insert(c);
        placed.insert(r.output);
        live -= copies[made[t][r.output]].bytes;
      }
      most = std::max(most, live);
    }
    return isValid ? most : -1;
  }
};

} // namespace isthmus::plan
