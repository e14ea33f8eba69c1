// What RNN, GRU and LSTM share: operands sorted by direction, activations, the loop over steps.
#pragma once

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {

// One of the activations that a file may name, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// The state between steps, [batch, hidden]; not valid while it is zero.
struct State {
  Operand h, c;
};

// The weights of one direction.
struct Direction {
  bool reverse = false;
  Operand w, r;            // [gates * hidden, input], [gates * hidden, hidden]
  Operand rest;            // of a GRU: the rows of r that meet the state after its reset
  Operand bias, resetBias; // added to the inputs' product; of a GRU: added before the reset
  llvm::SmallVector<Operand, 3> peepholes; // of an LSTM, for i, o, f: [hidden]
  State start;
  std::vector<Activation> activations;
};

class Recurrent {
public:
  // Reads the node. `activations`: those of one direction where it names none.
  Recurrent(NodeContext &n, int64_t gates, std::vector<std::string> activations);

  NodeContext &n;
  int64_t gates, steps = 0, batch = 0, hidden = 0;
  bool linearBeforeReset = false, inputForget = false;

  // One step of one direction: `x` is the step's product with the inputs.
  using Step = void (*)(Recurrent &, const Direction &, const Operand &x, State &);
  void unroll(Step step);

  // d's activation `i` of what is first clipped, if the node says so.
  Operand activation(const Direction &d, size_t i, const Operand &x, bool clipped = true);
  llvm::SmallVector<Operand, 4> split(const Operand &x, Ints sizes, int64_t axis = 1);

private:
  void readActivations(const std::vector<std::string> &byDefault);
  void readDirection(size_t d, Direction &to);
  Operand ofDirection(size_t operand, size_t d); // operand [directions, ...] without that axis
  Operand validAt(int64_t step);                 // [batch, 1]; not valid: all are
  void unroll(Step step, const Direction &d, llvm::SmallVectorImpl<Operand> &out, State &last);

  bool batchFirst_ = false, bounded_ = false; // by sequence_lens
  double clip_ = 0;
  llvm::SmallVector<Direction, 2> directions_;
};

} // namespace isthmus::onnx_import
