#include "ir/onnx/parameters.h"

#include "ir/onnx/decisions.h"
#include "ir/onnx/merged.h"
#include "ir/onnx/readers.h"
#include "ir/onnx/rows.h"
#include "ir/onnx/tables.h"
#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace isthmus::onnx_import {
namespace {

// --- Names

bool isNumber(llvm::StringRef s) {
  return !s.empty() && s.find_first_not_of("0123456789") == llvm::StringRef::npos;
}

// Names that exporters make up for what has none in the model: "onnx::Mul_12", "val_72", "12",
// "/layer/Constant_output_0", "const_fold_opt__7".
bool isMadeUp(llvm::StringRef name) {
  if (name.startswith("onnx::") || name.startswith("/") || name.contains_insensitive("constant_") ||
      name.startswith_insensitive("const_"))
    return true;
  name.consume_front("val_");
  return isNumber(name) || isNumber(name.rsplit("__").second);
}

// "logit_scale", "blocks.0.gamma": what a program calls a tensor, and not a path of operations.
bool isIdentifier(llvm::StringRef name) {
  return !isMadeUp(name) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
}

// Whether a value of this name, by PyTorch's newer exporter, holds the elements of its operand.
bool isRearranging(llvm::StringRef name) {
  if (isMadeUp(name))
    return true;
  auto [stem, number] = name.rsplit('_');
  if (isNumber(number))
    name = stem;
  constexpr llvm::StringLiteral kOps[] = {
      "t",       "transpose", "permute",   "view",       "reshape", "unsafe_view", "_unsafe_view",
      "flatten", "squeeze",   "unsqueeze", "contiguous", "clone",   "to",          "_to_copy",
      "type_as", "alias",     "detach",    "expand"};
  return llvm::is_contained(kOps, name);
}

constexpr llvm::StringLiteral kMean(".running_mean"), kVariance(".running_var");
bool isNamedAverage(llvm::StringRef name) {
  return name.endswith(kMean) || name.endswith(kVariance);
}

// --- Roles

bool matchesAny(llvm::ArrayRef<NamePattern> patterns, llvm::StringRef name) {
  return llvm::any_of(patterns, [&](const NamePattern &p) { return p.matches(name); });
}

class RoleFinder {
public:
  RoleFinder(Model &m, const llvm::StringMap<Tensor> &data, const OnnxOptions &options)
      : m_(m), data_(data), options_(options), records_(m) {}

  llvm::Expected<Roles> find();

private:
  // One tensor of the model: an initializer, or a copy of one.
  struct Candidate {
    InitializerRole role;
    const Tensor *data = nullptr; // null if it could not be read
    llvm::StringRef ours;         // the kind that our own metadata tell
    std::string parameter;        // what the exporter's records call it; may be empty
    bool followsOrigin = false;   // a copy for one more reader
    // What to tell, unless it turns out to be another tensor's parameter.
    Decisions told;
  };

  void collect();
  void addIdentities();
  Candidate make(std::string name, const std::string &of, std::string parameter) const;
  bool isSplitIdentity(const onnx::NodeProto &n, const Tensor *data) const;

  void decide(Candidate &c);
  Role roleByRules(Candidate &c);
  Role roleBySignature(Candidate &c, llvm::StringRef kind);
  Role roleOfUnnamed(Candidate &c);
  Role roleByName(Candidate &c);
  Role constant(Decision why, Candidate &c) {
    c.told.add(why, c.role.name);
    return Role::Constant;
  }
  void findSineAndCosine();

  void tieIdentities();
  std::optional<Rearrangement> tieOf(const Candidate &a, const Candidate &b) const;
  void tieRearranged();
  llvm::Error tieAsAsked();
  void makeSame(Candidate &b, const Candidate &a, Rearrangement how);
  llvm::Error checkAsked() const;

  void learnElsewhere(Roles &roles);
  void tellLost();

  // Few tensors are made of one, and a file with very many that begin and end alike must not take
  // for ever.
  static constexpr size_t kMostAlike = 64;

  Model &m_;
  const llvm::StringMap<Tensor> &data_;
  const OnnxOptions &options_;
  ExporterRecords records_;
  Readers readers_;
  std::vector<Candidate> all_;
  llvm::StringMap<size_t> byName_; // of all_
  llvm::StringSet<> positions_;    // sines and cosines, told by their contents
  llvm::StringSet<> inPlace_;      // parameters that are learned as something made of them
  Decisions told_;
};

RoleFinder::Candidate RoleFinder::make(std::string name, const std::string &of,
                                       std::string parameter) const {
  Candidate c;
  c.role.name = std::move(name);
  c.role.of = of;
  auto it = data_.find(of);
  c.data = it == data_.end() ? nullptr : &it->second;
  c.parameter = std::move(parameter);
  return c;
}

// The parameter that a tensor is by the exporter's records: by its name, or as the only thing that
// it was made of.
std::string recordedParameter(const ExporterRecords &records, llvm::StringRef name) {
  if (records.isParameter(name))
    return name.str();
  const ExporterRecords::Folded *f = records.foldedFrom(name);
  return f && f->from.size() == 1 && records.isParameter(f->from[0]) ? f->from[0] : "";
}

void RoleFinder::collect() {
  std::vector<TensorCopy> separate = separateByRecords(m_, records_);
  for (TensorCopy &copy : separateReaders(m_, options_.untie))
    separate.push_back(std::move(copy));
  readers_ = readersOf(m_);
  for (const onnx::TensorProto &t : m_.graph().initializer()) {
    all_.push_back(make(t.name(), t.name(), recordedParameter(records_, t.name())));
    all_.back().ours = onnx_rows::getMeta(t.metadata_props(), onnx_rows::kKind);
    byName_[t.name()] = all_.size() - 1;
  }
  for (TensorCopy &copy : separate) {
    if (!copy.parameter.empty())
      told_.add(Decision::SplitByRecords, copy.parameter,
                (copy.name == copy.parameter ? "" : ", as '" + copy.name + "'") + " beside '" +
                    copy.of + "'");
    all_.push_back(make(copy.name, copy.of, copy.parameter));
    all_.back().followsOrigin = copy.parameter.empty();
    byName_[copy.name] = all_.size() - 1;
  }
  addIdentities();
}

// An Identity of an initializer with a name of its own, where it is more than another name.
bool RoleFinder::isSplitIdentity(const onnx::NodeProto &n, const Tensor *data) const {
  llvm::StringRef name = n.output(0);
  if (matchesAny(options_.untie, name))
    return true;
  // One of the model's own (a clone, a layer that does nothing) has no parameter's name.
  if (name.startswith("/") || (records_.hasSignature() && records_.kindOf(name).empty()))
    return false;
  return data && isFloat(data->type.dtype) && allElementsEqual(*data);
}

bool isIdentity(const onnx::NodeProto &n) {
  return n.op_type() == "Identity" && isDefaultDomain(n.domain()) && n.input_size() == 1 &&
         n.output_size() == 1;
}

void RoleFinder::addIdentities() {
  for (const onnx::NodeProto &n : m_.graph().node()) {
    if (!isIdentity(n))
      continue;
    auto it = byName_.find(n.input(0));
    if (it == byName_.end())
      continue;
    const Candidate &origin = all_[it->second];
    if (!isSplitIdentity(n, origin.data))
      continue;
    byName_[n.output(0)] = all_.size();
    all_.push_back(make(n.output(0), origin.role.of, ""));
  }
}

void RoleFinder::decide(Candidate &c) {
  bool isFloating = c.data && isFloat(c.data->type.dtype);
  bool isAverage = isFloating && readers_.averaged.count(c.role.name);
  if (!c.ours.empty()) {
    c.role.role = c.ours == inputKindName(InputKind::Param)   ? Role::Parameter
                  : c.ours == inputKindName(InputKind::State) ? Role::State
                                                              : Role::Constant;
    return;
  }
  if (isFloating && matchesAny(options_.learn, c.role.name))
    c.role.role = Role::Parameter;
  else if (!isFloating || !readers_.learned.count(c.role.name))
    c.role.role = isAverage ? Role::State : Role::Constant;
  else
    c.role.role = roleByRules(c);
  if (c.role.role == Role::Constant && isAverage)
    c.role.role = Role::State;
  c.role.alsoState = isAverage && c.role.role == Role::Parameter;
}

// Of a float tensor that gradients reach.
Role RoleFinder::roleByRules(Candidate &c) {
  if (c.followsOrigin)
    return all_[byName_[c.role.of]].role.role;
  if (!records_.hasSignature())
    return roleByName(c);
  bool isCopy = c.role.name != c.role.of;
  llvm::StringRef kind = records_.kindOf(c.role.name);
  if (isCopy && kind.empty())
    kind = records_.kindOf(c.parameter);
  if (!kind.empty())
    return roleBySignature(c, kind);
  return roleOfUnnamed(c);
}

Role RoleFinder::roleBySignature(Candidate &c, llvm::StringRef kind) {
  if (kind == "PARAMETER")
    return Role::Parameter;
  c.told.add(Decision::NotBySignature, c.role.name, " (" + kind.str() + ")");
  return Role::Constant;
}

// What the exporter's optimizer made, as the signature does not name it.
Role RoleFinder::roleOfUnnamed(Candidate &c) {
  const ExporterRecords::Folded *f = records_.foldedFrom(c.role.name);
  bool isWeight = readers_.weights.count(c.role.name) != 0;
  if (!f) {
    bool mayBeLearned =
        records_.isOfFusedNode(c.role.name) || (!records_.tellsFolding() && isMadeUp(c.role.name));
    if (isWeight && c.data->type.rank() > 0 && mayBeLearned) {
      c.told.add(Decision::LearnedInPlace, c.role.name);
      return Role::Parameter;
    }
    // Numbers in the program are too many to tell.
    return c.data->type.elements() == 1 ? Role::Constant : constant(Decision::NotComputed, c);
  }
  bool fromParameters = !f->from.empty() && llvm::all_of(f->from, [&](const std::string &source) {
    return records_.isParameter(source);
  });
  if (!fromParameters)
    return constant(Decision::NotComputed, c);
  bool isRearranged =
      f->from.size() == 1 && isRearranging(c.role.name) &&
      llvm::all_of(f->between, [](const std::string &s) { return isRearranging(s); });
  inPlace_.insert(f->from.begin(), f->from.end());
  c.told.add(isRearranged || isWeight ? Decision::LearnedInPlace
                                      : Decision::NotComputedFromParameters,
             c.role.name, " of '" + llvm::join(f->from, "', '") + "'");
  return isRearranged || isWeight ? Role::Parameter : Role::Constant;
}

// Without a signature: by names, readers and contents.
Role RoleFinder::roleByName(Candidate &c) {
  const std::string &name = c.role.name;
  bool isWeight = readers_.weights.count(name) != 0;
  if (isNamedAverage(name))
    return constant(Decision::NotAverage, c);
  if (readers_.frequencies.count(name) || positions_.count(name) || looksLikePositions(*c.data))
    return constant(Decision::NotTable, c);
  if (!isWeight && looksLikeMask(*c.data))
    return constant(Decision::NotMask, c);
  if (c.data->type.elements() == 1 && !isIdentifier(name) && !(isWeight && c.data->type.rank()))
    return constant(Decision::NotNumber, c);
  if (isMadeUp(name) && !isWeight)
    return constant(Decision::NotNamed, c);
  if (c.data->type.rank() == 0)
    c.told.add(Decision::LearnedNumber, name);
  auto stem = llvm::StringRef(name).rsplit('.').first;
  if (auto it = byName_.find((stem + kVariance).str());
      it != byName_.end() && !readers_.averaged.count(all_[it->second].role.name))
    c.told.add(Decision::FrozenNormScale, name);
  return Role::Parameter;
}

// Tables of sines and of cosines come in pairs.
void RoleFinder::findSineAndCosine() {
  if (records_.hasSignature())
    return;
  std::map<std::string, std::vector<const Candidate *>> byType;
  for (const Candidate &c : all_) {
    if (!c.data || !isFloat(c.data->type.dtype) || c.data->type.rank() < 2 ||
        c.data->type.elements() == 0)
      continue;
    double first = elementAsDouble(*c.data, 0); // the sine of zero, or the cosine
    if (first != 0 && first != 1)
      continue;
    std::vector<const Candidate *> &alike = byType[c.data->type.str()];
    for (const Candidate *other : alike)
      if (looksLikeSineAndCosine(*c.data, *other->data)) {
        positions_.insert(c.role.name);
        positions_.insert(other->role.name);
      }
    if (alike.size() < kMostAlike)
      alike.push_back(&c);
  }
}

// --- One tensor, one parameter

void RoleFinder::makeSame(Candidate &b, const Candidate &a, Rearrangement how) {
  b.role.role = Role::Parameter;
  b.role.sameAs = a.role.name;
  b.role.how = std::move(how);
}

// Identities are followed by the translation; here they are told.
// Those that the signature tells are the model's own, as clones are.
void RoleFinder::tieIdentities() {
  for (const onnx::NodeProto &n : m_.graph().node()) {
    if (!isIdentity(n) || byName_.count(n.output(0)) ||
        llvm::StringRef(n.output(0)).startswith("/"))
      continue;
    auto it = byName_.find(n.input(0));
    if (it != byName_.end() && all_[it->second].role.role == Role::Parameter &&
        !records_.hasSignature())
      told_.add(Decision::TiedByIdentity, n.output(0), " is '" + n.input(0) + "'");
  }
  for (const Candidate &c : all_)
    if (c.role.name != c.role.of && c.parameter.empty() && c.role.role == Role::Parameter &&
        !matchesAny(options_.untie, c.role.name) && !matchesAny(options_.untie, c.role.of))
      told_.add(Decision::SplitEqual, c.role.name, " beside '" + c.role.of + "'");
}

std::string howText(const Rearrangement &how, const Tensor &a, const Tensor &b) {
  if (!how.perm.empty())
    return " transposed";
  if (a.type == b.type)
    return "";
  return a.type.dtype != b.type.dtype ? " as " + dtypeName(b.type.dtype).str() : " reshaped";
}

// Whether `b` is what `a` is, rearranged. Equal tensors of one shape start equal, no more, unless
// they were made of one parameter.
std::optional<Rearrangement> RoleFinder::tieOf(const Candidate &a, const Candidate &b) const {
  bool areOne = !a.parameter.empty() && a.parameter == b.parameter;
  if (!a.parameter.empty() && !b.parameter.empty() && !areOne)
    return std::nullopt;
  auto how = rearrangement(*a.data, *b.data);
  if (how && how->perm.empty() && a.data->type == b.data->type && !areOne)
    return std::nullopt;
  return how;
}

// Exporters fold a transpose, a reshape or a cast of a weight into a second tensor, and leave the
// weight itself where something else reads it.
void RoleFinder::tieRearranged() {
  std::vector<Candidate *> tensors;
  for (Candidate &c : all_)
    if (c.data && isFloat(c.data->type.dtype) && readers_.learned.count(c.role.name) &&
        c.role.role != Role::State && !allElementsEqual(*c.data) &&
        !matchesAny(options_.untie, c.role.name))
      tensors.push_back(&c);
  // Parameters come first, and of these names of the model's own: a person looks for those.
  auto rank = [](const Candidate *c) {
    return std::pair(c->role.role != Role::Parameter, isMadeUp(c->role.name));
  };
  llvm::stable_sort(tensors,
                    [&](const Candidate *a, const Candidate *b) { return rank(a) < rank(b); });
  std::map<RearrangementKey, std::vector<const Candidate *>> originals;
  for (Candidate *b : tensors) {
    std::optional<Rearrangement> how;
    for (const Candidate *a : originals[keyOf(*b->data, b->data->type.dtype)])
      if ((how = tieOf(*a, *b))) {
        told_.add(Decision::TiedRearranged, b->role.name,
                  " is '" + a->role.name + "'" + howText(*how, *a->data, *b->data));
        makeSame(*b, *a, std::move(*how));
        break;
      }
    if (how || b->role.role != Role::Parameter)
      continue;
    for (DType as : {DType::F32, DType::F64, DType::F16, DType::BF16})
      if (auto &same = originals[keyOf(*b->data, as)]; same.size() < kMostAlike)
        same.push_back(b);
  }
}

llvm::Error RoleFinder::tieAsAsked() {
  for (const auto &[to, name] : options_.ties) {
    for (const std::string &each : {to, name})
      if (!byName_.count(each)) {
        std::vector<llvm::StringRef> known;
        for (const Candidate &c : all_)
          known.push_back(c.role.name);
        return makeError("--tie={0},{1}: no tensor of the file is called '{2}'{3}", to, name, each,
                         didYouMean(each, known));
      }
    Candidate &a = all_[byName_[to]], &b = all_[byName_[name]];
    if (&a == &b || !a.data || !b.data)
      continue;
    auto how = rearrangement(*a.data, *b.data);
    if (!how || !isFloat(a.data->type.dtype))
      return makeError("--tie={0},{1} expects tensors that are equal bit for bit, or one that is "
                       "the other transposed, reshaped or cast; '{0}' is {2} and '{1}' is {3}, and "
                       "their numbers differ",
                       to, name, a.data->type.str(), b.data->type.str());
    a.role.role = Role::Parameter;
    a.role.sameAs.clear();
    makeSame(b, a, std::move(*how));
  }
  // What was seen through a tensor that is now seen through another one follows it.
  for (Candidate &c : all_)
    while (!c.role.sameAs.empty()) {
      const Candidate &a = all_[byName_[c.role.sameAs]];
      if (a.role.sameAs.empty())
        break;
      const Candidate &root = all_[byName_[a.role.sameAs]];
      auto how = rearrangement(*root.data, *c.data);
      if (!how || &root == &c)
        return makeError("--tie: '{0}' and '{1}' are tied in a circle", c.role.name, a.role.name);
      makeSame(c, root, std::move(*how));
    }
  return llvm::Error::success();
}

llvm::Error RoleFinder::checkAsked() const {
  for (const NamePattern &p : options_.untie) {
    bool found = llvm::any_of(
        all_, [&](const Candidate &c) { return p.matches(c.role.name) || p.matches(c.role.of); });
    if (found)
      continue;
    std::vector<llvm::StringRef> known;
    for (const Candidate &c : all_)
      known.push_back(c.role.name);
    for (const onnx::NodeProto &n : m_.graph().node())
      if (isIdentity(n))
        known.push_back(n.output(0));
    return makeError("--untie: no tensor of the file is called '{0}'{1}", p.text,
                     didYouMean(p.text, known));
  }
  return llvm::Error::success();
}

// --- Weights that are no initializers of the model's graph

template <typename Each> void forEachGraphWithin(const onnx::GraphProto &g, Each each) {
  for (const onnx::NodeProto &n : g.node())
    for (const onnx::GraphProto *inner : graphsIn(n)) {
      each(*inner);
      forEachGraphWithin(*inner, each);
    }
}

const onnx::TensorProto *constantOf(const onnx::NodeProto &n) {
  if (n.op_type() == "Constant" && n.output_size() == 1 && isDefaultDomain(n.domain()))
    for (const onnx::AttributeProto &a : n.attribute())
      if (a.name() == "value" && a.has_t())
        return &a.t();
  return nullptr;
}

void RoleFinder::learnElsewhere(Roles &roles) {
  // Of tensors, not numbers: these are what a network without initializers computes with.
  auto isWeight = [&](const onnx::TensorProto &t, const std::string &name) {
    return isFloatType(t.data_type()) && t.dims_size() > 0 && readers_.learned.count(name) &&
           readers_.weightsOfFed.count(name) && !readers_.frequencies.count(name);
  };
  bool hasWeights = llvm::any_of(all_, [&](const Candidate &c) {
    return c.role.role == Role::Parameter && readers_.weights.count(c.role.name);
  });
  auto lookAt = [&](const onnx::GraphProto &g, bool isWithin) {
    for (const onnx::TensorProto &t : g.initializer())
      if (isWithin && (isWeight(t, t.name()) || matchesAny(options_.learn, t.name())))
        roles.learnedElsewhere.insert(&t);
    for (const onnx::NodeProto &n : g.node()) {
      const onnx::TensorProto *t = constantOf(n);
      bool asked = t && isFloatType(t->data_type()) && matchesAny(options_.learn, n.output(0));
      if (!asked && !(t && !hasWeights && isWeight(*t, n.output(0))))
        continue;
      roles.learnedElsewhere.insert(&n);
      if (!asked)
        told_.add(Decision::LearnedConstantNode, n.output(0));
    }
  };
  forEachGraphWithin(m_.graph(), [&](const onnx::GraphProto &g) {
    for (const onnx::TensorProto &t : g.initializer())
      hasWeights |= isWeight(t, t.name());
  });
  lookAt(m_.graph(), /*isWithin=*/false);
  forEachGraphWithin(m_.graph(), [&](const onnx::GraphProto &g) { lookAt(g, /*isWithin=*/true); });
}

// --- Parameters that the records name and no tensor is

void RoleFinder::tellLost() {
  llvm::StringSet<> there, called;
  for (const Candidate &c : all_) {
    there.insert(c.role.name);
    there.insert(c.parameter);
  }
  bool hasCalls = false;
  for (const onnx::NodeProto &n : m_.graph().node()) {
    there.insert(n.output().begin(), n.output().end());
    for (llvm::StringRef p : records_.callBehind(n).parameters) {
      hasCalls = true;
      called.insert(p);
    }
  }
  for (const std::string &p : records_.parameters())
    if (!there.count(p) && !inPlace_.count(p))
      told_.add(hasCalls && !called.count(p) ? Decision::OtherName : Decision::Lost, p);
}

llvm::Expected<Roles> RoleFinder::find() {
  collect();
  findSineAndCosine();
  for (Candidate &c : all_)
    decide(c);
  tieIdentities();
  tieRearranged();
  if (llvm::Error e = checkAsked())
    return e;
  if (llvm::Error e = tieAsAsked())
    return e;
  Roles roles;
  learnElsewhere(roles);
  tellLost();
  for (const Candidate &c : all_)
    if (c.role.sameAs.empty())
      told_.addAll(c.told);
  for (bool isSame : {false, true})
    for (Candidate &c : all_)
      if (!c.role.sameAs.empty() == isSame)
        roles.tensors.push_back(c.role);
  told_.tell(roles.notes);
  return roles;
}

} // namespace

llvm::Expected<Roles> findRoles(Model &m, const llvm::StringMap<Tensor> &data,
                                const OnnxOptions &options) {
  return RoleFinder(m, data, options).find();
}

} // namespace isthmus::onnx_import
