#include "tools/c/handles.h"
#include "tools/version.h"

namespace isthmus::c {

isthmus_status fail(isthmus_status status, std::string message, isthmus_error **error) {
  if (error)
    *error = new (std::nothrow) isthmus_error{std::move(message)};
  return status;
}

static isthmus_status statusOf(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::BadInput:
    return ISTHMUS_BAD_INPUT;
  case ErrorKind::Unsupported:
    return ISTHMUS_UNSUPPORTED;
  case ErrorKind::CannotBeMet:
    return ISTHMUS_CANNOT_BE_MET;
  case ErrorKind::Interrupted:
    return ISTHMUS_CANCELLED;
  case ErrorKind::OutOfMemory:
    return ISTHMUS_OUT_OF_MEMORY;
  case ErrorKind::Device:
  case ErrorKind::Internal:
    return ISTHMUS_INTERNAL;
  }
  return ISTHMUS_INTERNAL;
}

// The message is the command line's, with locations, quoted lines and notes.
isthmus_status fail(llvm::Error e, isthmus_error **error) {
  isthmus_status status = ISTHMUS_BAD_INPUT;
  llvm::Error seen = llvm::handleErrors(std::move(e), [&](std::unique_ptr<DiagError> d) {
    status = statusOf(d->kind);
    return llvm::Error(std::move(d));
  });
  const std::string text = toString(std::move(seen));
  llvm::StringRef message = text;
  message.consume_front("error: ");
  return fail(status, message.str(), error);
}

isthmus_status checkCount(const char *name, size_t count, size_t most, isthmus_error **error) {
  if (count <= most)
    return ISTHMUS_OK;
  return fail(ISTHMUS_BAD_CALL,
              llvm::formatv("'{0}' is {1}, and is to be {2} at most", name, count, most).str(),
              error);
}

isthmus_status isNull(const char *name, isthmus_error **error) {
  return fail(ISTHMUS_BAD_CALL, std::string("'") + name + "' is null", error);
}

isthmus_status wrongSize(const char *structure, size_t size, size_t least, size_t most,
                         isthmus_error **error) {
  return fail(ISTHMUS_BAD_CALL,
              llvm::formatv("'size' of {0} is {1}, and this library knows sizes from {2} to {3}: "
                            "it is to be sizeof({0})",
                            structure, size, least, most)
                  .str(),
              error);
}

} // namespace isthmus::c

int32_t isthmus_abi_version(void) { return ISTHMUS_ABI_VERSION; }
const char *isthmus_version(void) { return isthmus::kVersion; }

const char *isthmus_error_message(const isthmus_error *error) {
  return error ? error->message.c_str() : "";
}
void isthmus_error_free(isthmus_error *error) { delete error; }

const char *isthmus_text_data(const isthmus_text *text, size_t *length) {
  if (length)
    *length = text ? text->data.size() : 0;
  return text ? text->data.c_str() : "";
}
void isthmus_text_free(isthmus_text *text) { delete text; }
