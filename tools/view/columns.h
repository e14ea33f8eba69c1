// Numbers for a page, compressed: the columns of tables, one after the other.
#pragma once

#include "ir/json.h"
#include <string>

namespace isthmus {

// Collects columns, and packs them with a head into bytes:
//
//   4 bytes       length of the head, least significant byte first
//   head          JSON in UTF-8; its key `columns` lists [name, form, count, bytes] in order
//   the columns
//
// Forms: `u8` and `f32` are the elements, `f32` with its least significant byte first. `plain` are
// whole numbers from 0, in groups of 7 bits, the lowest first; all bytes but a number's last have
// the highest bit set. `delta` are the differences of successive numbers, the first from 0, each
// written as a plain number: twice the difference, or twice its absolute value less one if it is
// negative.
class Columns {
public:
  void bytes(const std::string &name, llvm::ArrayRef<uint8_t> column);
  void bytes(const std::string &name, llvm::StringRef column);
  void floats(const std::string &name, llvm::ArrayRef<double> column); // rounded to f32
  // `at(i)` gives number i of `count`: from 0 to 2^53.
  template <typename At> void plain(const std::string &name, size_t count, At at) {
    begin();
    for (size_t i = 0; i < count; ++i)
      append(uint64_t(at(i)));
    end(name, "plain", count);
  }
  template <typename At> void delta(const std::string &name, size_t count, At at) {
    begin();
    int64_t last = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t next = int64_t(at(i)), by = next - last;
      append(by >= 0 ? uint64_t(by) * 2 : uint64_t(-by) * 2 - 1);
      last = next;
    }
    end(name, "delta", count);
  }

  // Head and columns.
  std::string packed(nlohmann::ordered_json head) const;

private:
  void begin() { start_ = data_.size(); }
  void append(uint64_t number);
  void end(const std::string &name, const char *form, size_t count);

  std::string data_;
  size_t start_ = 0;
  nlohmann::ordered_json index_ = nlohmann::ordered_json::array();
};

std::string deflated(llvm::StringRef bytes); // in zlib's format
std::string base64(llvm::StringRef bytes);

} // namespace isthmus
