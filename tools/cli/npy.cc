#include "tools/cli/npy.h"

#include "ir/file.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

namespace isthmus {
namespace {

struct Code {
  DType type;
  const char *text;
};
constexpr Code kCodes[] = {
    {DType::F32, "<f4"}, {DType::F64, "<f8"}, {DType::F16, "<f2"}, {DType::BF16, "<V2"},
    {DType::I32, "<i4"}, {DType::I64, "<i8"}, {DType::U8, "|u1"},  {DType::Bool, "|b1"},
    {DType::BF16, "|V2"}}; // as NumPy writes arrays of ml_dtypes

constexpr llvm::StringLiteral kMagic("\x93NUMPY");

// Reads the header, a dictionary of three keys in Python's syntax: {'descr': '<f4',
// 'fortran_order': False, 'shape': (4, 3), }.
class HeaderReader {
public:
  explicit HeaderReader(llvm::StringRef text) : rest_(text) {}

  llvm::Expected<Type> run() {
    if (!accept("{"))
      return malformed();
    while (!accept("}")) {
      if (llvm::Error e = readField())
        return e;
      if (!accept(",") && !rest_.ltrim().startswith("}"))
        return malformed();
    }
    if (!rest_.trim(" \n").empty() || seen_.size() != 3)
      return malformed();
    if (!type_.isValid())
      return makeError("its shape {0} is too large", type_.str());
    return type_;
  }

private:
  static llvm::Error malformed() {
    return makeError("its header is expected to be a dictionary of descr, fortran_order and shape");
  }

  bool accept(llvm::StringRef token) {
    rest_ = rest_.ltrim();
    return rest_.consume_front(token);
  }

  bool readString(llvm::StringRef &text) {
    rest_ = rest_.ltrim();
    for (char quote : {'\'', '"'}) {
      size_t end = rest_.startswith(llvm::StringRef(&quote, 1)) ? rest_.find(quote, 1)
                                                                : llvm::StringRef::npos;
      if (end == llvm::StringRef::npos)
        continue;
      text = rest_.slice(1, end);
      rest_ = rest_.drop_front(end + 1);
      return true;
    }
    return false;
  }

  llvm::Error readField() {
    llvm::StringRef key;
    if (!readString(key) || !accept(":"))
      return malformed();
    if (llvm::is_contained(seen_, key))
      return makeError("its header has '{0}' twice", key);
    seen_.push_back(key);
    if (key == "descr")
      return readElementType();
    if (key == "fortran_order")
      return readOrder();
    return key == "shape" ? readShape() : malformed();
  }

  llvm::Error readElementType() {
    llvm::StringRef text;
    rest_ = rest_.ltrim();
    llvm::StringRef shown = rest_.take_until([](char c) { return c == ','; });
    const Code *code = readString(text)
                           ? llvm::find_if(kCodes, [&](const Code &c) { return c.text == text; })
                           : std::end(kCodes);
    if (code == std::end(kCodes))
      return makeError("its element type is {0}; float16, 32, 64, int32, 64, uint8 or bool, "
                       "little-endian, is expected",
                       shown);
    type_.dtype = code->type;
    return llvm::Error::success();
  }

  llvm::Error readOrder() {
    if (accept("False"))
      return llvm::Error::success();
    return accept("True") ? makeError("it is in Fortran order; save numpy.ascontiguousarray of it")
                          : malformed();
  }

  llvm::Error readShape() {
    if (!accept("("))
      return makeError("its header has no shape");
    bool isList = true; // a tuple of one element ends in a comma
    while (!accept(")")) {
      int64_t d;
      rest_ = rest_.ltrim();
      if (!isList || rest_.consumeInteger(10, d) || d < 0)
        return makeError("its header has no proper shape");
      accept("L"); // Python 2 wrote it after numbers
      type_.dims.push_back(d);
      isList = accept(",");
    }
    if (type_.dims.size() == 1 && !isList)
      return makeError("its header has no proper shape");
    return llvm::Error::success();
  }

  llvm::StringRef rest_;
  llvm::SmallVector<llvm::StringRef, 3> seen_;
  Type type_{DType::F32, {}};
};

// The type, and the offset of the data; the data have the right size.
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
  auto type = HeaderReader(bytes.slice(8 + lengthBytes, start)).run();
  if (!type)
    return type.takeError();
  if (int64_t(bytes.size() - start) != type->bytes())
    return makeError("{0} needs {1} bytes of data, the file has {2}", type->str(), type->bytes(),
                     bytes.size() - start);
  return std::make_pair(*type, start);
}

} // namespace

llvm::Expected<Tensor> readNpy(const std::string &path) {
  auto file = readRegularFile(path);
  if (!file)
    return file.takeError();
  auto t = parseNpy(std::move(*file));
  if (!t)
    return locate(t.takeError(), path);
  return t;
}

llvm::Expected<Tensor> parseNpy(std::shared_ptr<const llvm::MemoryBuffer> bytes) {
  auto header = readHeader(bytes->getBuffer());
  if (!header)
    return header.takeError();
  const Type &type = header->first;
  const char *from = bytes->getBufferStart() + header->second;
  bool isAligned = reinterpret_cast<uintptr_t>(from) % uint64_t(dtypeBytes(type.dtype)) == 0;
  if (isAligned && type.dtype != DType::Bool)
    return Tensor{type, std::move(bytes), from};
  return Tensor::make(type, [&](char *to) {
    std::memcpy(to, from, size_t(type.bytes()));
    if (type.dtype == DType::Bool) // a file may hold any byte, and our kernels only 0 and 1
      for (int64_t i = 0; i < type.elements(); ++i)
        to[i] = to[i] != 0;
  });
}

void writeNpy(const Tensor &t, llvm::raw_ostream &to) {
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
  to << kMagic << '\1' << '\0' << char(header.size() & 255) << char(header.size() >> 8) << header;
  to.write(t.data, size_t(t.bytes()));
}

} // namespace isthmus
