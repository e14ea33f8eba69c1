// Reads pickle files of protocols 2 to 5 that hold data alone: dictionaries, lists, texts, numbers.
//
// A pickle is a program for a stack machine, which may call any function of Python. This reader
// knows the instructions that make data and no others, so that nothing is ever called.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace isthmus {

class Pickle {
public:
  using Ref = uint32_t; // a value; several places may hold the same one
  enum class Kind : uint8_t { None, Bool, Int, Float, Text, List, Dict };

  // `data` outlives the result. Errors tell the byte: what is no pickle, breaks off, or is no data.
  static llvm::Expected<Pickle> parse(llvm::StringRef data);

  Ref root() const { return root_; }
  Kind kind(Ref r) const { return values_[r].kind; }
  int64_t number(Ref r) const { return values_[r].number; } // of a Bool or an Int
  double real(Ref r) const { return values_[r].real; }
  llvm::StringRef text(Ref r) const { return texts_[values_[r].index]; }
  // Of a list or a tuple its items; of a dictionary keys and values in turns.
  const std::vector<Ref> &items(Ref r) const { return lists_[values_[r].index]; }
  // The last entry of a dictionary with this key; null if there is none, or if it is no dictionary.
  const Ref *find(Ref dict, llvm::StringRef key) const;

  static llvm::StringRef kindText(Kind kind); // "a list"

private:
  friend class PickleReader;
  struct Value {
    Kind kind = Kind::None;
    union {
      int64_t number = 0;
      double real;
      size_t index; // of a text or a list
    };
  };

  std::vector<Value> values_;
  std::vector<llvm::StringRef> texts_;
  std::vector<std::vector<Ref>> lists_;
  Ref root_ = 0;
};

} // namespace isthmus
