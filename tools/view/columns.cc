#include "tools/view/columns.h"

#include "ir/check.h"
#include <cstring>
#include <zlib.h>

namespace isthmus {

void Columns::append(uint64_t number) {
  for (; number >= 0x80; number >>= 7)
    data_ += char(number | 0x80);
  data_ += char(number);
}

void Columns::end(const std::string &name, const char *form, size_t count) {
  index_.push_back({name, form, count, data_.size() - start_});
}

void Columns::bytes(const std::string &name, llvm::ArrayRef<uint8_t> column) {
  begin();
  data_.append(column.begin(), column.end());
  end(name, "u8", column.size());
}

void Columns::bytes(const std::string &name, llvm::StringRef column) {
  bytes(name, llvm::makeArrayRef(reinterpret_cast<const uint8_t *>(column.data()), column.size()));
}

static void appendWord(std::string &out, uint32_t word) {
  for (unsigned shift = 0; shift < 32; shift += 8)
    out += char(word >> shift & 0xff);
}

void Columns::floats(const std::string &name, llvm::ArrayRef<double> column) {
  begin();
  for (double d : column) {
    const float f = float(d);
    uint32_t word;
    std::memcpy(&word, &f, sizeof word);
    appendWord(data_, word);
  }
  end(name, "f32", column.size());
}

std::string Columns::packed(nlohmann::ordered_json head) const {
  head["columns"] = index_;
  const std::string text = jsonText(head);
  std::string out;
  appendWord(out, uint32_t(text.size()));
  return out + text + data_;
}

std::string deflated(llvm::StringRef bytes) {
  uLongf size = compressBound(uLong(bytes.size()));
  std::string out(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef *>(out.data()), &size,
                             reinterpret_cast<const Bytef *>(bytes.data()), uLong(bytes.size()), 9);
  ISTHMUS_CHECK(code == Z_OK, "zlib found its own bound on the size too small");
  out.resize(size);
  return out;
}

std::string base64(llvm::StringRef bytes) {
  constexpr const char *kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (i + k < bytes.size() ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

} // namespace isthmus
