#include "tools/cli/npy.h"

#include "ir/diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

namespace isthmus {
namespace {

struct Code {
  DType type;
  const char *text;
};
constexpr Code kCodes[] = {{DType::F32, "<f4"},  {DType::F64, "<f8"}, {DType::F16, "<f2"},
                           {DType::BF16, "<V2"}, {DType::I32, "<i4"}, {DType::I64, "<i8"},
                           {DType::U8, "|u1"},   {DType::Bool, "|b1"}};

constexpr llvm::StringLiteral kMagic("\x93NUMPY");

// The text after 'key': in the header's dictionary.
llvm::StringRef field(llvm::StringRef header, llvm::StringRef key) {
  size_t at = header.find(("'" + key + "':").str());
  return at == llvm::StringRef::npos ? "" : header.drop_front(at + key.size() + 3).ltrim();
}

llvm::Expected<Type> parseHeader(llvm::StringRef header) {
  llvm::StringRef descr = field(header, "descr"), shape = field(header, "shape");
  const Code *code = nullptr;
  for (const Code &c : kCodes)
    if (descr.startswith(("'" + llvm::StringRef(c.text) + "'").str()))
      code = &c;
  if (!code)
    return makeError("its element type is {0}; float16, 32, 64, int32, 64, uint8 or bool, "
                     "little-endian, is expected",
                     descr.take_until([](char c) { return c == ','; }));
  if (!field(header, "fortran_order").startswith("False"))
    return makeError("it is in Fortran order; save numpy.ascontiguousarray of it");
  Type t(code->type, {});
  if (!shape.consume_front("("))
    return makeError("its header has no shape");
  for (shape = shape.ltrim(); !shape.startswith(")"); shape = shape.ltrim(" ,")) {
    int64_t d;
    if (shape.consumeInteger(10, d) || d < 0)
      return makeError("its header has no proper shape");
    t.dims.push_back(d);
  }
  if (!t.isValid())
    return makeError("its shape {0} is too large", t.str());
  return t;
}

using Buffer = std::unique_ptr<llvm::MemoryBuffer>;

llvm::Expected<Buffer> open(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return makeError("cannot read '{0}': {1}", path, file.getError().message());
  return std::move(*file);
}

// The type, and where the data, of the right size, begin.
llvm::Expected<std::pair<Type, size_t>> readHeader(llvm::StringRef bytes) {
  if (!bytes.startswith(kMagic) || bytes.size() < 12)
    return makeError("this is no .npy file");
  unsigned version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3)
    return makeError("it is of version {0} of the .npy format; 1 to 3 are known", version);
  size_t lengthBytes = version == 1 ? 2 : 4, length = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= size_t(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  size_t start = 8 + lengthBytes + length;
  if (start > bytes.size())
    return makeError("the header is cut short");
  auto type = parseHeader(bytes.slice(8 + lengthBytes, start));
  if (!type)
    return type.takeError();
  if (int64_t(bytes.size() - start) != type->bytes())
    return makeError("{0} needs {1} bytes of data, the file has {2}", type->str(), type->bytes(),
                     bytes.size() - start);
  return std::make_pair(*type, start);
}

} // namespace

llvm::Expected<Tensor> readNpy(const std::string &path) {
  auto file = open(path);
  if (!file)
    return file.takeError();
  auto header = readHeader((*file)->getBuffer());
  if (!header)
    return locate(header.takeError(), path);
  const Type &type = header->first;
  const char *from = (*file)->getBufferStart() + header->second;
  return Tensor::make(type, [&](char *to) { std::memcpy(to, from, size_t(type.bytes())); });
}

std::string npyBytes(const Tensor &t) {
  const Code *code = llvm::find_if(kCodes, [&](const Code &c) { return c.type == t.type.dtype; });
  std::string header =
      std::string("{'descr': '") + code->text + "', 'fortran_order': False, 'shape': (";
  for (int64_t d : t.type.dims)
    header += std::to_string(d) + ", ";
  if (t.type.rank() > 1)
    header.resize(header.size() - 2);
  header += "), }";
  size_t total = (10 + header.size() + 1 + 63) / 64 * 64; // NumPy aligns the data to 64 bytes
  header.resize(total - 11, ' ');
  header += '\n';
  std::string out = kMagic.str() + std::string("\1\0", 2);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header + std::string(t.data, t.bytes());
}

} // namespace isthmus
