#include "passes/lower/lowering.h"

#include "passes/lower/channels_last.h"
#include "passes/lower/fuse_bias.h"

namespace isthmus {

static constexpr DType kAllFloats[] = {DType::F32, DType::F64, DType::BF16, DType::F16};

LoweringOptions loweringFor(const Target &target, ChannelLayout layout) {
  LoweringOptions o;
  o.fusesBias = target.fusesBias;
  if (layout == ChannelLayout::Last)
    o.channelsLast.assign(std::begin(kAllFloats), std::end(kAllFloats));
  else if (layout == ChannelLayout::Auto)
    o.channelsLast.assign(target.channelsLast.begin(), target.channelsLast.end());
  return o;
}

LoweringOptions loweringOf(const GraphRecord &r) {
  LoweringOptions o;
  o.fusesBias = r.fusedBias;
  if (r.channelsLast)
    o.channelsLast.assign(std::begin(kAllFloats), std::end(kAllFloats));
  return o;
}

Graph lowered(Graph g, const LoweringOptions &o) {
  if (g.wasPlanned())
    return g;
  if (convolvesChannelsFirst(g, o.channelsLast)) {
    g = withChannelsLast(g);
    g.record.channelsLast = true;
  }
  if (o.fusesBias) {
    g = withFusedBias(g);
    g.record.fusedBias = true;
  }
  return g;
}

} // namespace isthmus
