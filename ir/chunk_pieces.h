// What the chunks of a graph hold: which part of which value of the original.
#pragma once

#include "ir/axis_cut.h"
#include "ir/verifier.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// The part of an original value that a value of a chunk node is.
struct ChunkPiece {
  enum Kind : uint8_t {
    None,  // no chunk's, or one that is wrong
    Whole, // all of it
    Split, // all of it, with the axis of `cut` as two (splitDims)
    Cut,   // the elements from `begin` to `end` of `cut`. Of a value whose elements there repeat
           // every `period` elements, `begin` is kAnywhere and `end` their number; they are those
           // of any cut of the axis in multiples of `cut.outer`, as far as the period goes into it
    Written, // the whole, of which the elements from 0 to `end` of `cut` are right
    Front,   // a tensor that begins with the whole
    Sum      // the sum over some places, or of several such sums; all of it if `end` is `length`
  };
  static constexpr int64_t kAnywhere = -1;
  Kind kind = None;
  ValueId of;
  AxisCut cut = {};
  int64_t begin = 0, end = 0, length = 0, period = 1;
  std::optional<uint32_t> total; // of a sum: which one, in the order of their first shares
  uint32_t step = 0;             // of a sum: how often something was added to it
  bool isWide = false;           // a sum in f32, of a value of 16 bits
  bool isSplit = false;          // cut or written, with the axis of `cut` as two
};

// The pieces by value, and the chunk nodes that do not compute what they say that they restore.
// Every chunk node is one of these (passes/chunk/chunk.cc makes no other):
//   - a part or a slice of a value that exists whole;
//   - the node that makes the restored value, on equal shares of its operands along one cut
//     (axis_cut.h), or its accumulation on the sum of the shares before;
//   - a sum of two sums of neighbouring shares, or of shares of two values which the original adds;
//   - for a value of 16 bits, whose sums are in f32: zeros, the sum of no share; a cast of the sum
//     of a share to f32; and a cast of the sum of all shares to the value's type, or a `shorten`,
//     whose first part is then taken by a part and a reshape;
//   - a part written into its place, after all places before it;
//   - a reshape that makes two axes of the one that is cut inside of an outer part, or one again.
struct ChunkPieces {
  std::vector<ChunkPiece> of; // by value
  std::vector<Violation> wrong;
  llvm::BitVector rounds; // by value: its node sums in another order than the node of the whole
};
ChunkPieces chunkPiecesOf(const Graph &g);

} // namespace isthmus
