#include "ir/onnx/parameters/decisions.h"

namespace isthmus::onnx_import {
namespace {

struct Text {
  Decision kind;
  const char *what;
};

constexpr Text kTexts[] = {
    {Decision::TiedByIdentity,
     "one parameter under several names, as the file has one tensor (--untie=NAME learns a name on "
     "its own)"},
    {Decision::TiedRearranged,
     "one parameter, as the tensors are equal bit for bit but for their shape, order or precision "
     "(--untie=NAME learns one on its own)"},
    {Decision::SplitEqual, "parameters of their own, although the file has one tensor: it is equal "
                           "throughout, and exporters merge such tensors (--tie=A,B ties them)"},
    {Decision::SplitByRecords, "parameters of their own by the exporter's records, although it "
                               "merged tensors that start equal"},
    {Decision::OtherName, "parameters that the exporter names and no operation reads: other names "
                          "of tied ones, or unused"},
    {Decision::LearnedInPlace,
     "parameters in place of those that the exporter rearranged or computed with"},
    {Decision::LearnedNumber, "parameters, although they are single numbers: the file does not "
                              "tell them from constants, their names do (--wrt leaves one out)"},
    {Decision::LearnedConstantNode,
     "parameters, although they are Constant nodes: no initializer is a weight"},
    {Decision::FrozenNormScale,
     "parameters, although they scale and shift after the frozen statistics of a batch norm: the "
     "file does not tell whether they are learned (--wrt leaves them out)"},
    {Decision::NotBySignature, "constants, not parameters, by the exporter's graph signature"},
    {Decision::NotComputed, "constants, not parameters: the exporter computed them, and from no "
                            "parameter alone (--wrt=NAME learns one)"},
    {Decision::NotComputedFromParameters,
     "constants, not parameters: the exporter computed them from parameters that are not in the "
     "file (exported with optimize=False they are; --wrt=NAME learns the tensor)"},
    {Decision::NotNumber,
     "constants, not parameters: single numbers without a name of the model's own (--wrt=NAME "
     "learns one)"},
    {Decision::NotNamed,
     "constants, not parameters: their names are made up, and no product, convolution, norm or "
     "embedding reads them as a weight (--wrt=NAME learns one)"},
    {Decision::NotMask,
     "constants, not parameters: they hold infinities or numbers that stand for them, as masks do "
     "(--wrt=NAME learns one)"},
    {Decision::NotTable, "constants, not parameters: sines, cosines or frequencies of positions "
                         "(--wrt=NAME learns one)"},
    {Decision::NotAverage, "constants, not parameters: running averages of a batch norm that is "
                           "written out (--wrt=NAME learns one)"},
    {Decision::Lost,
     "parameters that the exporter names and the file does not hold: it merged "
     "them with equal ones, computed with them or left them out, and they are not learned on "
     "their own (exported with optimize=False they would be)"},
};

} // namespace

void Decisions::tell(Notes &notes) const {
  for (const Text &text : kTexts)
    for (const Found &f : found_)
      if (f.kind == text.kind)
        notes.add(text.what, f.name, std::string(text.what) + ": '" + f.name + "'" + f.detail);
}

} // namespace isthmus::onnx_import
