// Sizes of an attention call, and the strides of its mask.
#pragma once

#include "ir/op_def.h"
#include "kernels/element/broadcast.h"
#include "kernels/element/portable.h"
#include <limits>

namespace isthmus::element {

struct AttentionShape {
  int64_t heads = 1, queries, keys; // heads: all axes but the last two
  int64_t depth, width;             // of a key and of a value
  double scale;
  bool causal;

  // Of a call of attention or attention_grad.
  explicit AttentionShape(const OpCall &c)
      : scale(c.attrs->getFloat("scale")), causal(c.attrs->getBool("causal")) {
    size_t first = c.op->name == "attention" ? 0 : 1, mask = first == 0 ? 3 : 6;
    const Type &q = c.operands[first], &v = c.operands[first + 2];
    queries = q.dims[q.dims.size() - 2];
    depth = q.dims.back();
    keys = v.dims[v.dims.size() - 2];
    width = v.dims.back();
    lead_.assign(q.dims.begin(), q.dims.end() - 2);
    for (int64_t d : lead_)
      heads *= d;
    if (c.operands.size() <= mask)
      return;
    maskOperand_ = mask;
    Dims scores = q.dims;
    scores.back() = keys;
    maskStrides_ = broadcastStrides(c.operands[mask].dims, scores);
  }

  bool isMasked() const { return maskOperand_ != 0; }
  size_t maskOperand() const { return maskOperand_; }
  // Steps in the mask, in elements: between rows and between columns of the scores, and the walk
  // over heads.
  int64_t maskRow() const { return isMasked() ? maskStrides_[lead_.size()] : 0; }
  int64_t maskColumn() const { return isMasked() ? maskStrides_[lead_.size() + 1] : 0; }
  Walk<1> maskHeads() const {
    Dims strides(lead_.size(), 0);
    if (isMasked())
      strides.assign(maskStrides_.begin(), maskStrides_.end() - 2);
    return Walk<1>(lead_, {strides});
  }
  // The mask's offset for a head.
  int64_t maskOf(int64_t head) const {
    int64_t at = 0;
    for (size_t a = lead_.size(); isMasked() && a-- > 0; head /= lead_[a])
      at += head % lead_[a] * maskStrides_[a];
    return at;
  }

  // The number of keys that queries before `end` can see.
  ISTHMUS_DEVICE int64_t seenBefore(int64_t end) const { return causal && end < keys ? end : keys; }

private:
  Dims lead_, maskStrides_;
  size_t maskOperand_ = 0;
};

// The factor that normalises a row's exponentials, from their sum. A row that sees no key has the
// sum zero; its factor and weights are then zero.
template <typename C> ISTHMUS_DEVICE C factorOf(C sum) { return sum == 0 ? C(0) : C(1) / sum; }
// The value subtracted from a row's scores, from its lse. A row that sees no key has scores and lse
// of -inf, and -inf - -inf would be NaN.
template <typename C> ISTHMUS_DEVICE C baseOf(C lse) {
  return lse == -std::numeric_limits<C>::infinity() ? C(0) : lse;
}

} // namespace isthmus::element
