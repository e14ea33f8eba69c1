// The code that RNN, GRU and LSTM share: operands sorted by direction, activations, the loop over
// time steps.
#pragma once

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {

// An activation named by the file, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// The state between steps, [batch, hidden]. An invalid operand stands for zero.
struct State {
  Operand h, c;
};

// The weights of one direction.
struct Direction {
  bool reverse = false;
  Operand w, r;            // [gates * hidden, input], [gates * hidden, hidden]
  Operand rest;            // GRU: the rows of r that multiply the state after its reset
  Operand bias, resetBias; // added to x * w; GRU: added before the reset
  llvm::SmallVector<Operand, 3> peepholes; // LSTM: for i, o, f; [hidden] each
  State start;
  std::vector<Activation> activations;
};

class Recurrent {
public:
  // Reads the node. `activations`: the default activations of one direction.
  Recurrent(NodeContext &n, int64_t gates, std::vector<std::string> activations);

  NodeContext &n;
  int64_t gates, steps = 0, batch = 0, hidden = 0;
  bool linearBeforeReset = false, inputForget = false;

  // One step of one direction: `x` is the step's product with the inputs.
  using Step = void (*)(Recurrent &, const Direction &, const Operand &x, State &);
  void unroll(Step step);

  // Applies d's activation `i` to `x`, after the node's `clip` if `clipped`.
  Operand activation(const Direction &d, size_t i, const Operand &x, bool clipped = true);
  llvm::SmallVector<Operand, 4> split(const Operand &x, Ints sizes, int64_t axis = 1);

private:
  void readActivations(const std::vector<std::string> &byDefault);
  void readDirection(size_t d, Direction &to);
  Operand ofDirection(size_t operand, size_t d); // [directions, ...] without its first axis
  Operand validAt(int64_t step);                 // [batch, 1]; invalid if every sequence is valid
  void unroll(Step step, const Direction &d, llvm::SmallVectorImpl<Operand> &out, State &last);

  bool batchFirst_ = false, bounded_ = false; // bounded_: sequence_lens is given
  double clip_ = 0;
  llvm::SmallVector<Direction, 2> directions_;
};

} // namespace isthmus::onnx_import
