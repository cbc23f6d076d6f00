#pragma once

// The file of Keras around a layer: the version that wrote it, and what is read of it so far.
// Versions differ in what a config means, so each layer is read with the version of its file. A
// model that says nothing, such as one written by hand, counts as written by the newest version
// that is known here.

#include <compare>
#include <string>
#include <vector>

namespace cohort {

struct LayerClass;

struct KerasVersion {
  int major = 3;
  int minor = 15;

  bool IsKeras2() const { return major < 3; }

  friend auto operator<=>(const KerasVersion&, const KerasVersion&) = default;
};

// What the readers of a file's layers tell whoever uses the model.
struct FileNotes {
  std::vector<std::string> lines;   // what is computed otherwise than the file says
  bool depends_on_version = false;  // true: a layer asked which version wrote the file
};

// What the reader of a layer knows of the file around the layer.
struct LayerContext {
  KerasVersion keras = {};
  bool version_is_known = false;  // the file says its version
  bool names_modules = false;     // the file names the model's module, as Keras does from 2.13 on
  const std::vector<LayerClass>* classes = nullptr;  // the table; never null
  int depth = 0;                                     // number of layers around this one
  std::string call = {};       // LayerCall::arguments of the layer's first call, or ""
  FileNotes* notes = nullptr;  // never null
};

}  // namespace cohort
