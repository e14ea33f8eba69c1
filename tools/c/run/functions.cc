// The functions of isthmus_run.h.

#include "tools/c/run/isthmus_run.h"

#include "ir/rank.h"
#include "ir/text/isth_file.h"
#include "ir/text/parser.h"
#include "ir/verifier.h"
#include "tools/c/handles.h"
#include "tools/c/run/options.h"
#include "tools/c/run/session.h"
#include "tools/version.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>

using namespace isthmus;
using namespace isthmus::c;

static_assert(int(ISTHMUS_RUN_BAD_INPUT) == int(ISTHMUS_BAD_INPUT) &&
              int(ISTHMUS_RUN_BAD_CALL) == int(ISTHMUS_BAD_CALL) &&
              int(ISTHMUS_RUN_UNSUPPORTED) == int(ISTHMUS_UNSUPPORTED) &&
              int(ISTHMUS_RUN_INTERNAL) == int(ISTHMUS_INTERNAL) &&
              int(ISTHMUS_RUN_OUT_OF_MEMORY) == int(ISTHMUS_OUT_OF_MEMORY));

// The enumerators of isthmus_run.h have the values of our own.
static_assert(int(DType::F32) == ISTHMUS_RUN_F32 && int(DType::F64) == ISTHMUS_RUN_F64 &&
              int(DType::BF16) == ISTHMUS_RUN_BF16 && int(DType::F16) == ISTHMUS_RUN_F16 &&
              int(DType::I32) == ISTHMUS_RUN_I32 && int(DType::I64) == ISTHMUS_RUN_I64 &&
              int(DType::U8) == ISTHMUS_RUN_U8 && int(DType::Bool) == ISTHMUS_RUN_BOOL);
static_assert(int(InputKind::Input) == ISTHMUS_RUN_INPUT &&
              int(InputKind::Param) == ISTHMUS_RUN_PARAM &&
              int(InputKind::State) == ISTHMUS_RUN_STATE &&
              int(InputKind::Const) == ISTHMUS_RUN_CONST);

namespace {

// Descriptions of inputs or outputs, in the form of isthmus_run.h.
class Tensors {
public:
  void add(const Graph &g, ValueId v, int32_t kind, OutputRole role = {}) {
    const Type &type = g.type(v);
    const std::string &name = names_.emplace_back(g.valueName(v).str());
    const std::vector<int64_t> &sizes = sizes_.emplace_back(type.dims.begin(), type.dims.end());
    all_.push_back({name.c_str(), kind, int32_t(type.dtype), int32_t(type.rank()), sizes.data(),
                    type.bytes(),
                    role.kind == OutputKind::NextState ? g.valueName(role.of).data() : nullptr});
  }
  llvm::ArrayRef<isthmus_run_tensor> all() const { return all_; }
  std::optional<size_t> find(llvm::StringRef name) const {
    auto it = llvm::find(names_, name);
    return it == names_.end() ? std::nullopt : std::optional<size_t>(it - names_.begin());
  }
  std::string nearTo(llvm::StringRef name) const {
    std::vector<llvm::StringRef> known(names_.begin(), names_.end());
    return didYouMean(name, known);
  }

private:
  std::deque<std::string> names_; // a deque, so that elements keep their addresses
  std::deque<std::vector<int64_t>> sizes_;
  std::vector<isthmus_run_tensor> all_;
};

} // namespace

struct isthmus_run_session {
  GraphSession session;
  Tensors inputs, outputs;

  isthmus_run_session(Graph g, const GraphSessionOptions &o) : session(std::move(g), o) {
    const Graph &graph = session.graph();
    for (const Input &i : graph.inputs())
      inputs.add(graph, i.value, int32_t(i.kind));
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      outputs.add(graph, graph.outputs()[i], ISTHMUS_RUN_OUTPUT, graph.role(i));
  }
};

int32_t isthmus_run_abi_version(void) { return ISTHMUS_RUN_ABI_VERSION; }
const char *isthmus_run_version(void) { return kVersion; }

const char *isthmus_run_error_message(const isthmus_run_error *error) {
  return error ? error->message.c_str() : "";
}
void isthmus_run_error_free(isthmus_run_error *error) { delete error; }

void isthmus_run_options_init(isthmus_run_options *options, size_t size) {
  isthmus_run_options all = {};
  all.size = sizeof all;
  all.device = "cpu";
  if (options)
    std::memcpy(options, &all, std::min(size, sizeof all));
}

// Runs a function's body and returns its status.
template <typename Body> static isthmus_run_status run(isthmus_run_error **error, Body body) {
  return static_cast<isthmus_run_status>(guarded(error, body));
}

static isthmus_status opened(llvm::Expected<Graph> g, const isthmus_run_options &options,
                             isthmus_run_session **session, isthmus_run_error **error) {
  if (!g)
    return fail(g.takeError(), error);
  if (llvm::Error e = verify(*g))
    return fail(std::move(e), error);
  *session =
      new isthmus_run_session(std::move(*g), {options.threads, options.lowers != 0, options.seed});
  return ISTHMUS_OK;
}

isthmus_status isthmus::c::checkOptions(const isthmus_run_options *options,
                                        isthmus_run_error **error) {
  ISTHMUS_NOT_NULL(options);
  if (options->size != sizeof *options)
    return fail(ISTHMUS_BAD_CALL,
                "'size' of isthmus_run_options is not that of this library: "
                "isthmus_run_options_init sets it",
                error);
  const llvm::StringRef device = options->device ? options->device : "";
  if (device != "cpu")
    return fail(ISTHMUS_BAD_CALL, "'device' is to be \"cpu\", got \"" + device.str() + "\"", error);
  if (options->threads < 0)
    return fail(ISTHMUS_BAD_CALL,
                "'threads' is to be 0 or more, got " + std::to_string(options->threads), error);
  return ISTHMUS_OK;
}

isthmus_run_status isthmus_run_open(const char *path, const isthmus_run_options *options,
                                    isthmus_run_session **session, isthmus_run_error **error) {
  return run(error, [&] {
    ISTHMUS_NOT_NULL(session);
    *session = nullptr;
    ISTHMUS_NOT_NULL(path);
    if (isthmus_status s = checkOptions(options, error))
      return s;
    return opened(loadIsth(path), *options, session, error);
  });
}

isthmus_run_status isthmus_run_open_text(const char *text, size_t length,
                                         const isthmus_run_options *options,
                                         isthmus_run_session **session, isthmus_run_error **error) {
  return run(error, [&] {
    ISTHMUS_NOT_NULL(session);
    *session = nullptr;
    ISTHMUS_NOT_NULL(text);
    if (isthmus_status s = checkCount("length", length, PTRDIFF_MAX, error))
      return s;
    if (isthmus_status s = checkOptions(options, error))
      return s;
    return opened(parseGraph(llvm::StringRef(text, length), "the text"), *options, session, error);
  });
}

void isthmus_run_close(isthmus_run_session *session) { delete session; }

static const isthmus_run_tensor *listOf(llvm::ArrayRef<isthmus_run_tensor> all, size_t *count) {
  if (count)
    *count = all.size();
  return all.data();
}

const isthmus_run_tensor *isthmus_run_inputs(const isthmus_run_session *session, size_t *count) {
  return listOf(session->inputs.all(), count);
}
const isthmus_run_tensor *isthmus_run_outputs(const isthmus_run_session *session, size_t *count) {
  return listOf(session->outputs.all(), count);
}

// The type that a caller describes, if it is valid.
static llvm::Expected<Type> typeOf(const char *name, int32_t dtype, int32_t rank,
                                   const int64_t *sizes) {
  if (dtype < 0 || dtype > ISTHMUS_RUN_BOOL)
    return makeError("input '%{0}': 'dtype' is {1}, which is none of isthmus_run_dtype", name,
                     dtype);
  if (rank < 0 || rank > kMaxRank)
    return makeError("input '%{0}': 'rank' is to be from 0 to {1}, got {2}", name, kMaxRank, rank);
  Type type(static_cast<DType>(dtype), llvm::ArrayRef<int64_t>(sizes, size_t(rank)));
  if (!type.isValid())
    return makeError("input '%{0}': its sizes are negative or too large", name);
  return type;
}

isthmus_run_status isthmus_run_set(isthmus_run_session *session, const char *name, int32_t dtype,
                                   int32_t rank, const int64_t *sizes, const void *data,
                                   isthmus_run_error **error) {
  return run(error, [&] {
    ISTHMUS_NOT_NULL(session);
    ISTHMUS_NOT_NULL(name);
    if (rank > 0)
      ISTHMUS_NOT_NULL(sizes);
    const std::optional<size_t> i = session->inputs.find(name);
    if (!i)
      return fail(ISTHMUS_BAD_INPUT,
                  "'" + std::string(name) + "' names no input of the graph" +
                      session->inputs.nearTo(name),
                  error);
    auto type = typeOf(name, dtype, rank, sizes);
    if (!type)
      return fail(type.takeError(), error);
    if (type->bytes() > 0)
      ISTHMUS_NOT_NULL(data);
    const Input &input = session->session.graph().inputs()[*i];
    const Tensor given{*type, nullptr, static_cast<const char *>(data)}; // the caller's bytes
    if (llvm::Error e = session->session.set(input, given))
      return fail(std::move(e), error);
    return ISTHMUS_OK;
  });
}

isthmus_run_status isthmus_run_step(isthmus_run_session *session, uint64_t number,
                                    isthmus_run_error **error) {
  return run(error, [&] {
    ISTHMUS_NOT_NULL(session);
    if (llvm::Error e = session->session.step(number))
      return fail(std::move(e), error);
    return ISTHMUS_OK;
  });
}

static isthmus_status checkHasRun(const isthmus_run_session &session, isthmus_run_error **error) {
  return session.session.hasRun()
             ? ISTHMUS_OK
             : fail(ISTHMUS_BAD_CALL, "no step has run: isthmus_run_step runs one", error);
}

isthmus_run_status isthmus_run_get(const isthmus_run_session *session, const char *name, void *to,
                                   size_t bytes, isthmus_run_error **error) {
  return run(error, [&] {
    ISTHMUS_NOT_NULL(session);
    ISTHMUS_NOT_NULL(name);
    if (isthmus_status s = checkHasRun(*session, error))
      return s;
    const std::optional<size_t> i = session->outputs.find(name);
    if (!i)
      return fail(ISTHMUS_BAD_INPUT,
                  "'" + std::string(name) + "' names no output of the graph" +
                      session->outputs.nearTo(name),
                  error);
    auto t = session->session.get(*i);
    if (!t)
      return fail(t.takeError(), error);
    if (size_t(t->bytes()) != bytes)
      return fail(ISTHMUS_BAD_CALL,
                  "output '" + std::string(name) + "' has " + std::to_string(t->bytes()) +
                      " bytes, and there is place for " + std::to_string(bytes),
                  error);
    if (bytes > 0) {
      ISTHMUS_NOT_NULL(to);
      std::memcpy(to, t->data, bytes);
    }
    return ISTHMUS_OK;
  });
}

isthmus_run_status isthmus_run_figures(const isthmus_run_session *session,
                                       isthmus_run_report *report, isthmus_run_error **error) {
  return run(error, [&] {
    ISTHMUS_NOT_NULL(session);
    ISTHMUS_NOT_NULL(report);
    if (report->size != sizeof *report)
      return fail(ISTHMUS_BAD_CALL, "'size' of isthmus_run_report is not that of this library",
                  error);
    if (isthmus_status s = checkHasRun(*session, error))
      return s;
    const GraphSession &s = session->session;
    report->predicted_peak_bytes = s.figures().predictedPeakBytes;
    report->measured_peak_bytes = s.measuredPeakBytes();
    report->arena_bytes = s.figures().arenaBytes;
    report->persistent_bytes = s.figures().persistentBytes;
    report->step_seconds = s.stepSeconds();
    return ISTHMUS_OK;
  });
}
