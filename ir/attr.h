// Attributes of nodes: small constants that are part of what an op does.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isthmus {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

// The order of the alternatives is that of AttrKind.
using Attr = std::variant<bool, int64_t, double, std::string, Ints, Floats>;
enum class AttrKind : uint8_t { Bool, Int, Float, String, IntList, FloatList };

inline AttrKind kindOf(const Attr &a) { return static_cast<AttrKind>(a.index()); }
llvm::StringRef attrKindName(AttrKind k); // "bool", "int", "float", "string", "int list", ...

// As the text form writes it: `true`, `3`, `0.5`, `"text"` or a bare word, `[1, 2]`, `[0.5, 1.0]`.
// Floats are in shortest form that reads back to the same bits and always carry a `.`, `e`, `inf`
// or `nan`.
std::string attrText(const Attr &a);
std::string floatText(double d);

// Equal to the bit: 0.0 is not -0.0, which an op may tell apart.
bool identical(const Attr &a, const Attr &b);

// Converts an integer (list) where a float (list) is asked for, and an empty list to either kind.
// False if the kinds do not agree.
bool coerceAttr(Attr &a, AttrKind want);

// A small map from name to attribute, sorted by name: equal maps compare and print equal.
class Attrs {
public:
  using Item = std::pair<std::string, Attr>;

  Attrs() = default;
  Attrs(std::initializer_list<Item> items) {
    for (const Item &i : items)
      set(i.first, i.second);
  }

  const Attr *find(llvm::StringRef name) const;
  void set(llvm::StringRef name, Attr value);
  bool erase(llvm::StringRef name); // whether it was there

  // The attribute must be there, of that kind (the row's attribute list guarantees it).
  template <typename T> const T &get(llvm::StringRef name) const {
    const Attr *a = find(name);
    if (!a)
      missing(name);
    return std::get<T>(*a);
  }
  bool getBool(llvm::StringRef n) const { return get<bool>(n); }
  int64_t getInt(llvm::StringRef n) const { return get<int64_t>(n); }
  double getFloat(llvm::StringRef n) const { return get<double>(n); }
  const std::string &getString(llvm::StringRef n) const { return get<std::string>(n); }
  const Ints &getInts(llvm::StringRef n) const { return get<Ints>(n); }

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }

  friend bool operator==(const Attrs &a, const Attrs &b) { return a.items_ == b.items_; }
  friend bool operator!=(const Attrs &a, const Attrs &b) { return !(a == b); }

private:
  [[noreturn]] static void missing(llvm::StringRef name);
  std::vector<Item> items_; // a vector of its own: most nodes have none, and Node stays small
};

bool identical(const Attrs &a, const Attrs &b);

} // namespace isthmus
