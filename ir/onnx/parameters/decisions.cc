#include "ir/onnx/parameters/decisions.h"

namespace isthmus::onnx_import {
namespace {

// Options that would change the decision.
const Remedy kNone;
const Remedy kUntie = {"untie", "NAME", "learn a name on its own"};
const Remedy kTie = {"tie", "A,B", "tie them"};
const Remedy kLearn = {"wrt", "NAME", "learn one"};
const Remedy kLeaveOut = {"wrt", "", "leave one out"};

struct Text {
  Decision kind;
  const char *what;
  const Remedy &otherwise = kNone;
  const char *before = ": "; // the name
};

const Text kTexts[] = {
    {Decision::TiedByIdentity, "one parameter under several names, as the file has one tensor",
     kUntie},
    {Decision::TiedRearranged,
     "one parameter, as the tensors are equal bit for bit but for their shape, order or precision",
     kUntie},
    {Decision::TiedComputed,
     "computed in the graph, from parameters that the file also reads, as the tensors are that "
     "bit for bit",
     kUntie},
    {Decision::SplitEqual,
     "parameters of their own, although the file has one tensor: it is equal throughout, and "
     "exporters merge such tensors",
     kTie},
    {Decision::SplitByRecords, "parameters of their own by the exporter's records, although it "
                               "merged tensors that start equal"},
    {Decision::OtherName, "parameters that the exporter names and no operation reads: other names "
                          "of tied ones, or unused"},
    {Decision::RestoredBias,
     "parameters of zeros, which the exporter left out as they change nothing before they learn"},
    {Decision::LearnedInPlace,
     "parameters in place of those that the exporter rearranged or computed with"},
    {Decision::LearnedRow,
     "parameters of one row in place of those that the exporter repeated along the first axis",
     kUntie},
    {Decision::LearnedNumber,
     "parameters, although they are single numbers: the file does not tell them from constants, "
     "their names do",
     kLeaveOut},
    {Decision::LearnedConstantNode,
     "parameters, although they are Constant nodes: no initializer is a weight"},
    {Decision::NoGradient, "no gradient reaches the parameter", kLeaveOut, " "},
    {Decision::LostDetach,
     "no gradient by x in x + (q - x), where q is x rounded or the like: a straight-through "
     "estimator, whose detach() older exporters leave out (the newer one writes it with "
     "optimize=False)"},
    {Decision::FrozenNormScale,
     "parameters, although they scale and shift after the frozen statistics of a batch norm: the "
     "file does not tell whether they are learned",
     kLeaveOut},
    {Decision::NotBySignature, "constants, not parameters, by the exporter's graph signature"},
    {Decision::NotComputed,
     "constants, not parameters: the exporter computed them, and from no parameter alone", kLearn},
    {Decision::NotComputedFromParameters,
     "constants, not parameters: the exporter computed them from parameters that are not in the "
     "file (exported with optimize=False they are)",
     kLearn},
    {Decision::NotComputedFromRead,
     "constants, not parameters: the exporter computed them from parameters that the file also "
     "reads as they are, whose gradients lack what these would add (exported with optimize=False "
     "they are whole)"},
    {Decision::NotNumber,
     "constants, not parameters: single numbers without a name of the model's own", kLearn},
    {Decision::NotNamed,
     "constants, not parameters: their names are made up, and no product, convolution, norm or "
     "embedding reads them as a weight",
     kLearn},
    {Decision::NotMask,
     "constants, not parameters: they hold infinities or numbers that stand for them, as masks do",
     kLearn},
    {Decision::NotTable, "constants, not parameters: sines, cosines or frequencies of positions",
     kLearn},
    {Decision::NotAverage,
     "constants, not parameters: running averages of a batch norm that is written out", kLearn},
    {Decision::Lost, "parameters that the exporter names and the file does not hold: it merged "
                     "them with equal ones, computed with them or left them out, and they are not "
                     "learned on their own (exported with optimize=False they would be)"},
};

} // namespace

void Decisions::tell(Notes &notes) const {
  for (const Text &text : kTexts)
    for (const Found &f : found_)
      if (f.kind == text.kind)
        notes.add(text.what, f.name,
                  std::string(text.what) + text.before + "'" + f.name + "'" + f.detail,
                  text.otherwise);
}

} // namespace isthmus::onnx_import
