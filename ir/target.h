// What passes may know about the machine that a graph is compiled for. Storage sizes and workspaces
// follow from it before planning, so a rewritten graph records the target's name.
#pragma once

#include "ir/graph.h"
#include <array>
#include <map>
#include <memory>

namespace isthmus {

// Measured times of calls on a device. They replace the roofline's estimates.
struct MeasuredCosts {
  std::string target;                    // the name of the target that they were measured on
  std::map<std::string, double> seconds; // by callKey
  // A call without a measurement takes this many times the roofline's estimate.
  double perEstimate = 1;
};

struct Target {
  std::string name = "generic";   // "cpu avx512 threads=2"
  std::string deviceKind = "cpu"; // the devices of a step are called cpu:0, cpu:1, ... by default
  int64_t alignment = 64;         // every storage is rounded up to this many bytes

  // Scratch bytes of a call; null means none. An error if the target cannot run it.
  std::function<llvm::Expected<int64_t>(const OpCall &)> workspace;

  // Whether a matrix product that adds a bias saves a pass over its result.
  bool fusesBias = false;

  // Roofline: a call takes the longer of its arithmetic and its traffic, plus a start-up time.
  double flopsPerSecond = 100e9;
  double bytesPerSecond = 10e9;
  double launchSeconds = 2e-6;
  // The rate of convolutions and matrix products, by the dtype of the narrowest floats that they
  // read: some devices have separate units for them. Zero: flopsPerSecond.
  std::array<double, 8> contractionFlopsPerSecond = {};

  // Replaces the roofline; null: nothing was measured.
  std::shared_ptr<const MeasuredCosts> measured;

  // The bandwidth of the link to host memory, in each direction; zero without a link.
  double linkBytesPerSecond = 0;

  // Element types whose convolutions are faster with channels last (ir/ops/channels.h).
  std::vector<DType> channelsLast;

  int64_t rounded(int64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }
  llvm::Expected<int64_t> workspaceBytes(const OpCall &call) const {
    return workspace && !call.op->isMessage() ? workspace(call) : 0;
  }
  double flopsPerSecondOf(const OpCall &call) const;
  double seconds(const OpCall &call) const; // on the compute units; zero for views and transfers
  double estimatedSeconds(const OpCall &call) const; // the roofline's
  double transferSeconds(int64_t bytes) const;
};

} // namespace isthmus
