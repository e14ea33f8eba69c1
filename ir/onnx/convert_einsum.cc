// Einsum: operands are reshaped to matrices and multiplied one after the other. The product is then
// transposed to the result's order.

#include "ir/onnx/op_table.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus::onnx_import {
namespace {

// A letter is its own label. The label of an axis under the ellipsis is kEllipsis, which is beyond
// all letters, plus the axis's position from the end of the ellipsis.
using Label = int;
constexpr Label kEllipsis = 1000;
using Labels = llvm::SmallVector<Label, 8>;

struct Term {
  Operand x;
  Labels labels; // one for each axis
};

bool has(llvm::ArrayRef<Label> labels, Label l) { return llvm::is_contained(labels, l); }

class Einsum {
public:
  explicit Einsum(NodeContext &n) : n_(n) {}
  void convert();

private:
  // The labels of a term of the equation, whose ellipsis stands for `covered` axes.
  Labels labelsOf(llvm::StringRef term, int64_t covered);
  void parse();
  void bindSizes();
  void takeDiagonals(Term &t);
  void sumOver(Term &t, llvm::function_ref<bool(Label)> gone);
  Operand arranged(const Term &t, llvm::ArrayRef<Label> order);
  Term product(const Term &a, const Term &b, llvm::function_ref<bool(Label)> needed);

  int64_t sizeOf(llvm::ArrayRef<Label> labels) {
    int64_t size = 1;
    for (Label l : labels)
      size *= sizes_[l];
    return size;
  }

  NodeContext &n_;
  llvm::SmallVector<Term, 4> terms_;
  Labels result_;
  llvm::DenseMap<Label, int64_t> sizes_;
};

Labels Einsum::labelsOf(llvm::StringRef term, int64_t covered) {
  Labels out;
  bool seen = false;
  while (!term.empty()) {
    if (term.consume_front("...")) {
      if (seen)
        n_.fail("expects one ellipsis in a term of the equation at most");
      seen = true;
      for (int64_t i = covered; i-- > 0;)
        out.push_back(kEllipsis + int(i));
      continue;
    }
    if (!llvm::isAlpha(term.front()))
      n_.fail("expects letters, commas, '...' and '->' in the equation, got '{0}'", term.front());
    out.push_back(term.front());
    term = term.drop_front();
  }
  return out;
}

void Einsum::parse() {
  std::string equation = n_.stringAttr("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  auto [left, right] = llvm::StringRef(equation).split("->");
  bool isExplicit = llvm::StringRef(equation).contains("->");
  llvm::SmallVector<llvm::StringRef, 4> terms;
  left.split(terms, ',');
  if (terms.size() != n_.numInputs())
    return n_.fail("expects one term for each of the {0} operands in '{1}'", n_.numInputs(),
                   equation);
  int64_t mostCovered = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Operand &x = n_.in(i);
    bool open = terms[i].contains("...");
    int64_t covered = x.type.rank() - int64_t(terms[i].size()) + (open ? 3 : 0);
    if (covered < 0 || (covered > 0 && !open))
      return n_.fail("expects a letter for each axis of '{0}', got '{1}'", x.type.str(), terms[i]);
    mostCovered = std::max(mostCovered, covered);
    terms_.push_back({x, labelsOf(terms[i], covered)});
  }
  if (isExplicit) {
    result_ = labelsOf(right, mostCovered);
    for (size_t i = 0; i < result_.size(); ++i)
      if (has(llvm::makeArrayRef(result_).take_front(i), result_[i]))
        n_.fail("expects each letter once in the result of '{0}'", equation);
    return;
  }
  // An implicit result has the axes under the ellipsis, then the letters that occur once, in
  // alphabetical order.
  for (int64_t i = mostCovered; i-- > 0;)
    result_.push_back(kEllipsis + int(i));
  for (Label l = 'A'; l <= 'z'; ++l) {
    size_t times = 0;
    for (const Term &t : terms_)
      times += size_t(llvm::count(t.labels, l));
    if (times == 1)
      result_.push_back(l);
  }
}

// Finds the size of each label. Axes of size one broadcast.
void Einsum::bindSizes() {
  for (const Term &t : terms_)
    for (size_t i = 0; i < t.labels.size(); ++i) {
      int64_t size = t.x.type.dims[i];
      int64_t &known = sizes_.try_emplace(t.labels[i], 1).first->second;
      if (known != 1 && size != 1 && known != size)
        return n_.fail("expects sizes that agree wherever a letter stands twice, got {0} and {1}",
                       known, size);
      known = known == 1 ? size : known;
    }
  for (Label l : result_)
    if (!sizes_.count(l))
      return n_.fail("names an axis in the result that no operand has");
}

// Drops axes of size one whose label is larger elsewhere, and takes the diagonal of two axes with
// one label: moved to the end and flattened to one axis, it is every n+1st element.
void Einsum::takeDiagonals(Term &t) {
  Dims dims;
  Labels labels;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (t.x.type.dims[i] == sizes_[t.labels[i]]) {
      dims.push_back(t.x.type.dims[i]);
      labels.push_back(t.labels[i]);
    }
  t = {n_.reshape(t.x, dims), labels};
  for (size_t i = 0; i < t.labels.size() && !n_.failed();) {
    Label l = t.labels[i];
    size_t twin = i + 1;
    while (twin < t.labels.size() && t.labels[twin] != l)
      ++twin;
    if (twin == t.labels.size()) {
      ++i;
      continue;
    }
    Ints perm;
    Labels others;
    for (size_t j = 0; j < t.labels.size(); ++j)
      if (j != i && j != twin) {
        perm.push_back(int64_t(j));
        others.push_back(t.labels[j]);
      }
    perm.push_back(int64_t(i));
    perm.push_back(int64_t(twin));
    int64_t size = sizes_[l];
    Ints flat, none(others.size() + 1, 0), steps(others.size() + 1, 1);
    for (Label other : others)
      flat.push_back(sizes_[other]);
    flat.push_back(size * size);
    steps.back() = size + 1;
    Operand square = n_.reshape(n_.transpose(t.x, perm), flat);
    t.x = n_.emit("slice", {square}, {{"starts", none}, {"limits", flat}, {"steps", steps}});
    others.push_back(l);
    t.labels = others;
    i = 0;
  }
}

void Einsum::sumOver(Term &t, llvm::function_ref<bool(Label)> gone) {
  Ints axes;
  Labels left;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (gone(t.labels[i]))
      axes.push_back(int64_t(i));
    else
      left.push_back(t.labels[i]);
  if (!axes.empty())
    t = {n_.emit("sum", {t.x}, {{"axes", axes}}), left};
}

// The term's operand with its axes in another order.
Operand Einsum::arranged(const Term &t, llvm::ArrayRef<Label> order) {
  Ints perm;
  for (Label l : order)
    perm.push_back(llvm::find(t.labels, l) - t.labels.begin());
  return llvm::is_sorted(perm) ? t.x : n_.transpose(t.x, perm);
}

Labels joined(std::initializer_list<llvm::ArrayRef<Label>> parts) {
  Labels all;
  for (llvm::ArrayRef<Label> p : parts)
    all.append(p.begin(), p.end());
  return all;
}

// Sums over labels of both terms, unless the result or a later term needs them.
Term Einsum::product(const Term &a, const Term &b, llvm::function_ref<bool(Label)> needed) {
  Labels batch, summed, onlyA, onlyB;
  for (Label l : a.labels)
    (!has(b.labels, l) ? onlyA : needed(l) ? batch : summed).push_back(l);
  for (Label l : b.labels)
    if (!has(a.labels, l))
      onlyB.push_back(l);
  Labels labels = joined({batch, onlyA, onlyB});
  int64_t many = sizeOf(batch), rows = sizeOf(onlyA), inner = sizeOf(summed),
          columns = sizeOf(onlyB);
  Operand y;
  if (summed.empty() || !isFloat(a.x.type.dtype)) { // elementwise, then a sum if necessary
    Operand left = n_.reshape(arranged(a, joined({batch, onlyA, summed})), {many, rows, 1, inner});
    Operand right =
        n_.reshape(arranged(b, joined({batch, onlyB, summed})), {many, 1, columns, inner});
    y = n_.emit("mul", {left, right});
    if (!summed.empty())
      y = n_.emit("sum", {y}, {{"axes", Ints{3}}});
  } else {
    // A matrix in transposed order is multiplied with the row's transpose flag.
    bool flipA = llvm::makeArrayRef(a.labels) == llvm::makeArrayRef(joined({batch, summed, onlyA}));
    bool flipB = llvm::makeArrayRef(b.labels) == llvm::makeArrayRef(joined({batch, onlyB, summed}));
    Operand left =
        flipA ? n_.reshape(a.x, {many, inner, rows})
              : n_.reshape(arranged(a, joined({batch, onlyA, summed})), {many, rows, inner});
    Operand right =
        flipB ? n_.reshape(b.x, {many, columns, inner})
              : n_.reshape(arranged(b, joined({batch, summed, onlyB})), {many, inner, columns});
    y = n_.emit("matmul", {left, right}, {{"transpose_a", flipA}, {"transpose_b", flipB}});
  }
  Dims dims;
  for (Label l : labels)
    dims.push_back(sizes_[l]);
  return {n_.reshape(y, dims), labels};
}

void Einsum::convert() {
  parse();
  if (!n_.failed())
    bindSizes();
  if (n_.failed())
    return;
  for (Term &t : terms_)
    takeDiagonals(t);
  for (size_t i = 0; i < terms_.size() && !n_.failed(); ++i) // labels that only one term has
    sumOver(terms_[i], [&](Label l) {
      bool elsewhere = has(result_, l);
      for (size_t j = 0; j < terms_.size(); ++j)
        elsewhere |= j != i && has(terms_[j].labels, l);
      return !elsewhere;
    });
  Term all = terms_[0];
  for (size_t i = 1; i < terms_.size() && !n_.failed(); ++i)
    all = product(all, terms_[i], [&](Label l) {
      bool later = has(result_, l);
      for (size_t j = i + 1; j < terms_.size(); ++j)
        later |= has(terms_[j].labels, l);
      return later;
    });
  if (!n_.failed())
    n_.result(0, arranged(all, result_));
}

void convertEinsum(NodeContext &n) { Einsum(n).convert(); }

constexpr OnnxOp kOps[] = {weighted(kAllOperands, {"Einsum", 12, 1, kAnyNumber, 1, convertEinsum})};

} // namespace

OpRows einsumOps() { return kOps; }

} // namespace isthmus::onnx_import
