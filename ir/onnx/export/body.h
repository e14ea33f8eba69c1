// Standard operators that compute one row: what stands in place of its node, or in the function
// that its node calls.
#pragma once

#include "ir/onnx/rows.h"

namespace isthmus::onnx_export {

// The name of a value in the body.
using Name = std::string;

// A value and its type.
struct Known {
  Name name;
  Type type;
};

Ints sequence(int64_t from, int64_t to); // from, from + 1, ..., below `to`

class Body {
public:
  using AttrItem = std::pair<llvm::StringRef, Attr>;

  // The names that it makes begin with `prefix`.
  explicit Body(Name prefix = "") : prefix_(std::move(prefix)) {}

  std::vector<onnx::NodeProto> nodes;
  std::vector<onnx::TensorProto> constants; // by name; each is read by some node

  // A new node; its first result. Names that are empty are operands left out.
  Name emit(llvm::StringRef op, llvm::ArrayRef<Name> operands, llvm::ArrayRef<AttrItem> attrs = {});
  std::vector<Name> emitAll(llvm::StringRef op, llvm::ArrayRef<Name> operands, size_t results,
                            llvm::ArrayRef<AttrItem> attrs = {});
  onnx::NodeProto &last() { return nodes.back(); }

  // A new Scan over the first axis of `xs`. Of the states and of one element of each of `xs`,
  // `turn` makes the next states and what is to be joined. Gives the last states and what was
  // joined.
  using Turn = llvm::function_ref<std::vector<Name>(Body &, const std::vector<Name> &)>;
  std::vector<Name> scan(std::vector<Name> states, llvm::ArrayRef<Name> xs, Turn turn);

  // Constants.
  Name ints(llvm::ArrayRef<int64_t> values); // i64[n]
  Name integer(int64_t value);               // i64[]
  Name number(DType type, double value);     // rank 0
  Name tensor(const Tensor &t);

  // Renames values to the results' names; where one is an operand, a constant or another result
  // too, by an Identity.
  void finish(llvm::ArrayRef<Name> made, llvm::ArrayRef<Name> results);

private:
  Name fresh() { return prefix_ + "t_" + std::to_string(next_++); }
  Name prefix_;
  unsigned next_ = 0;
};

onnx::TensorProto tensorProto(const Tensor &t, const std::string &name); // data within

// What a row's writer sees.
struct RowWriter {
  Body &b;
  const Attrs &attrs;
  llvm::ArrayRef<Known> operands;
  llvm::ArrayRef<Type> results;

  const Name &x(size_t i) const { return operands[i].name; }
  const Type &type(size_t i) const { return operands[i].type; }
  bool has(size_t i) const { return i < operands.size(); }
  DType dtype(size_t i = 0) const { return operands[i].type.dtype; }
  Name number(double v) const { return b.number(dtype(), v); } // of operand 0's type
  // What sums and products of operand 0 are written in: of eight bits ONNX has none. Cast back, the
  // bits are the same.
  DType wide() const { return dtype() == DType::U8 ? DType::I32 : dtype(); }
  Name reshape(const Name &v, llvm::ArrayRef<int64_t> dims) const;
  Name transpose(const Name &v, const Ints &perm) const; // `v` itself where nothing moves
  Name cast(const Name &v, DType from, DType to) const;  // `v` itself where they are one
  // Steps of one where none are given.
  Name slice(const Name &v, const Ints &starts, const Ints &limits, const Ints &axes,
             const Ints &steps = {}) const;
};

// The names of the results; empty if there is no way to write it here (others may know one).
using WriteRow = std::vector<Name> (*)(const RowWriter &);

struct ExportRow {
  llvm::StringRef row;
  WriteRow write;
  // Whether some operand may rightly not be read. Else that is taken for an operand which the row
  // got later, and there is no body rather than a wrong one.
  bool mayIgnore = false;
};
using ExportRows = llvm::ArrayRef<ExportRow>;
ExportRows elementwiseRows(); // rows_elementwise.cc
ExportRows shapeRows();
ExportRows windowRows();
ExportRows normRows();
ExportRows lossRows();
ExportRows indexingRows();
ExportRows scanRows();
ExportRows randomRows();
ExportRows transferRows();

// Writes one row into `b`: by the table, else by the rows that its expansion has. Nothing where
// neither is there.
std::optional<std::vector<Name>> writeRow(Body &b, const OpDef &op, const Attrs &attrs,
                                          llvm::ArrayRef<Known> operands,
                                          llvm::ArrayRef<Type> results);

} // namespace isthmus::onnx_export
