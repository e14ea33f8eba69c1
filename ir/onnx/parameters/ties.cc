#include "ir/onnx/parameters/ties.h"

#include "ir/onnx/parameters/tensor_names.h"
#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace isthmus::onnx_import {
namespace {

void makeSame(Candidate &b, const Candidate &a, Rearrangement how) {
  b.role.role = Role::Parameter;
  b.role.sameAs = a.role.name;
  b.role.how = std::move(how);
}

// Reports Identities of parameters. The translation itself follows them.
void tellIdentities(const Candidates &candidates, Decisions &decisions) {
  // In a file with a signature, Identities are nodes of the program, such as clones.
  if (candidates.records().hasSignature())
    return;
  for (const onnx::NodeProto &n : candidates.model().graph().node()) {
    if (!isIdentity(n) || candidates.find(n.output(0)) ||
        llvm::StringRef(n.output(0)).startswith("/"))
      continue;
    const Candidate *of = candidates.find(n.input(0));
    if (of && of->role.role == Role::Parameter)
      decisions.add(Decision::TiedByIdentity, n.output(0), " is '" + n.input(0) + "'");
  }
}

void tellCopies(const Candidates &candidates, Decisions &decisions) {
  const std::vector<NamePattern> &untie = candidates.options().untie;
  for (const Candidate &c : candidates.all())
    if (c.role.name != c.role.of && c.parameter.empty() && c.role.role == Role::Parameter &&
        !matchesAny(untie, c.role.name) && !matchesAny(untie, c.role.of))
      decisions.add(Decision::SplitEqual, c.role.name, " beside '" + c.role.of + "'");
}

// "is 'a' transposed", "is 1 - 'a'".
std::string howText(const Rearrangement &how, const Candidate &a, const Candidate &b) {
  const std::string name = "'" + a.role.name + "'";
  switch (how.made) {
  case Pointwise::OneMinus:
    return " is 1 - " + name;
  case Pointwise::Reciprocal:
    return " is 1 / " + name;
  case Pointwise::Same:
    break;
  }
  const Type &from = a.data->type, &to = b.data->type;
  const std::string text = " is " + name;
  if (!how.perm.empty())
    return text + " transposed";
  if (from == to)
    return text;
  return text + (from.dtype != to.dtype ? " as " + dtypeName(to.dtype).str() : " reshaped");
}

// How `b` is `a` rearranged, if they are one parameter. Tensors of one type with equal elements may
// merely start equal, so they need a record that both come from one parameter.
std::optional<Rearrangement> tieOf(const Candidate &a, const Candidate &b) {
  bool areOne = !a.parameter.empty() && a.parameter == b.parameter;
  if (!a.parameter.empty() && !b.parameter.empty() && !areOne)
    return std::nullopt;
  auto how = rearrangement(*a.data, *b.data);
  if (how && how->perm.empty() && a.data->type == b.data->type && !areOne)
    return std::nullopt;
  return how;
}

// Tensors that may be one parameter, in the order in which they are tried: parameters first, and
// among these the names of the model's own first, because users know those.
std::vector<Candidate *> tieable(Candidates &candidates) {
  std::vector<Candidate *> tensors;
  for (Candidate &c : candidates.all())
    if (c.isFloating() &&
        (candidates.readers().learned.count(c.role.name) || c.role.role == Role::Parameter) &&
        c.role.role != Role::State && !allElementsEqual(*c.data) &&
        !matchesAny(candidates.options().untie, c.role.name))
      tensors.push_back(&c);
  auto rank = [](const Candidate *c) {
    return std::pair(c->role.role != Role::Parameter, isMadeUp(c->role.name));
  };
  llvm::stable_sort(tensors,
                    [&](const Candidate *a, const Candidate *b) { return rank(a) < rank(b); });
  return tensors;
}

// Tensors that others may be derived from, by the invariant of their rearrangements.
using Originals = std::map<RearrangementKey, std::vector<const Candidate *>>;

void addOriginal(Originals &originals, const Candidate &a, Pointwise made) {
  for (DType as : {DType::F32, DType::F64, DType::F16, DType::BF16})
    if (auto &same = originals[keyOf(*a.data, as, made)]; same.size() < kMostAlike)
      same.push_back(&a);
}

// Ties `b` to the first candidate original for which `find` returns a rearrangement. False if there
// is none.
template <typename Find>
bool tieToOneOf(Originals &originals, Candidate &b, Decision why, Decisions &decisions, Find find) {
  for (const Candidate *a : originals[keyOf(*b.data, b.data->type.dtype)])
    if (std::optional<Rearrangement> how = find(*a)) {
      decisions.add(why, b.role.name, howText(*how, *a, b));
      makeSame(b, *a, std::move(*how));
      return true;
    }
  return false;
}

// Exporters fold a transpose, a reshape or a cast of a weight into a second tensor, and keep the
// weight itself if another node reads it.
void tieRearranged(Candidates &candidates, Decisions &decisions) {
  Originals originals;
  for (Candidate *b : tieable(candidates))
    if (!tieToOneOf(originals, *b, Decision::TiedRearranged, decisions,
                    [&](const Candidate &a) { return tieOf(a, *b); }) &&
        b->role.role == Role::Parameter)
      addOriginal(originals, *b, Pointwise::Same);
}

// Exporters also fold 1 - w and 1 / w: for gates that mix two values, and for activations that
// scale an argument and scale the result back. A tensor that the signature names is never derived,
// whatever its elements.
void tieComputed(Candidates &candidates, Decisions &decisions) {
  for (Pointwise made : {Pointwise::OneMinus, Pointwise::Reciprocal}) {
    Originals originals;
    for (Candidate *b : tieable(candidates))
      if (b->role.role == Role::Parameter && b->role.sameAs.empty())
        addOriginal(originals, *b, made);
      else if (b->role.role == Role::Constant && b->data->type.elements() > 1 &&
               candidates.records().kindOf(b->role.name).empty())
        tieToOneOf(originals, *b, Decision::TiedComputed, decisions,
                   [&](const Candidate &a) { return rearrangement(*a.data, *b->data, made); });
  }
}

llvm::Error checkUntie(const Candidates &candidates) {
  for (const NamePattern &p : candidates.options().untie) {
    bool found = llvm::any_of(candidates.all(), [&](const Candidate &c) {
      return p.matches(c.role.name) || p.matches(c.role.of);
    });
    if (found)
      continue;
    std::vector<llvm::StringRef> known = candidates.names();
    for (const onnx::NodeProto &n : candidates.model().graph().node())
      if (isIdentity(n))
        known.push_back(n.output(0));
    return makeError("--untie: no tensor of the file is called '{0}'{1}", p.text,
                     didYouMean(p.text, known));
  }
  return llvm::Error::success();
}

llvm::Error tieAsAsked(Candidates &candidates) {
  for (const auto &[to, name] : candidates.options().ties) {
    for (const std::string &each : {to, name})
      if (!candidates.find(each))
        return makeError("'{0}' and '{1}' cannot be tied: no tensor of the file is called '{2}'{3}",
                         to, name, each, didYouMean(each, candidates.names()));
    Candidate &a = *candidates.find(to), &b = *candidates.find(name);
    if (&a == &b || !a.data || !b.data)
      continue;
    auto how = rearrangement(*a.data, *b.data);
    if (!how || !a.isFloating())
      return makeError(
          "'{0}' and '{1}' cannot be tied: expected tensors that are equal bit for bit, or one "
          "that is the other transposed, reshaped or cast; they are {2} and {3}, and "
          "their numbers differ",
          to, name, a.data->type.str(), b.data->type.str());
    a.role.role = Role::Parameter;
    a.role.sameAs.clear();
    makeSame(b, a, std::move(*how));
  }
  return llvm::Error::success();
}

// If a tensor's tie leads to a tensor that is tied itself, ties it to the root.
llvm::Error followTies(Candidates &candidates) {
  for (Candidate &c : candidates.all())
    while (!c.role.sameAs.empty()) {
      const Candidate &a = *candidates.find(c.role.sameAs);
      if (a.role.sameAs.empty())
        break;
      const Candidate &root = *candidates.find(a.role.sameAs);
      auto how = rearrangement(*root.data, *c.data, c.role.how.made);
      if (!how || &root == &c)
        return makeError("--tie: '{0}' and '{1}' are tied in a circle", c.role.name, a.role.name);
      makeSame(c, root, std::move(*how));
    }
  return llvm::Error::success();
}

} // namespace

llvm::Error tieCandidates(Candidates &candidates, Decisions &decisions) {
  tellIdentities(candidates, decisions);
  tellCopies(candidates, decisions);
  tieRearranged(candidates, decisions);
  tieComputed(candidates, decisions);
  if (llvm::Error e = checkUntie(candidates))
    return e;
  if (llvm::Error e = tieAsAsked(candidates))
    return e;
  return followTies(candidates);
}

} // namespace isthmus::onnx_import
