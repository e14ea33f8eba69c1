// Chunks that a person asks for.
#pragma once

#include "ir/diagnostics.h"
#include "passes/chunk/batch_axes.h"
#include "passes/chunk/chunk.h"

namespace isthmus {

// The region that grows from a value along an axis, in so many chunks.
struct ChunkRequest {
  std::string value; // without '%'
  uint32_t axis = 0;
  int64_t chunks = 0;
  Rounding rounding = Rounding::Beside;
};

// "%logits:axis=0,chunks=8", and perhaps ",rounding=in-place"; axis 0 may be left out. Errors say
// what was expected.
llvm::Expected<ChunkRequest> parseChunkRequest(llvm::StringRef text);

// The graph with these regions in chunks, and its losses in a form that can be cut. Errors: a value
// that is not there, an axis that no region grows along, more chunks than there are places to cut.
llvm::Expected<Graph> chunkedAsAsked(const Graph &g, llvm::ArrayRef<ChunkRequest> requests);

// The number of examples of a step (BatchAxes::examples); 0 without any, or with wrong requests.
int64_t examplesOf(const Graph &g, llvm::ArrayRef<BatchRequest> batch);

// What a person may not expect of the axis on which the step's inputs have their examples, and how
// to name another one; none where nothing is strange.
std::optional<Remark> batchRemark(const Graph &g, llvm::ArrayRef<BatchRequest> batch);

// The whole step in micro-batches: every region along the inputs' axes of examples, each in
// `number` parts. Nodes without a factor there, such as a batch norm's statistics, read the whole
// batch. With `only`, ascending numbers, the other micro-batches are left out (chunk.h). Errors:
// those of batchAxes; fewer examples than parts; no node that can run on a part of the batch.
llvm::Expected<Graph> inMicroBatches(const Graph &g, int64_t number,
                                     llvm::ArrayRef<BatchRequest> batch,
                                     llvm::ArrayRef<int64_t> only = {});

} // namespace isthmus
