// The same in C++: a context and its workspace are freed when they go out of scope.
//
// classify PIXELS COUNT: reads COUNT times 64 floats from the file PIXELS, prints a digit a line.

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

#include "digits.h"

namespace {

constexpr std::size_t kPixels = 64;

class Classifier {
 public:
  Classifier() {
    digits_context *made = nullptr;
    const int status = digits_create(&made, nullptr, 1);
    if (status != GRAPHC_OK) throw std::runtime_error(digits_status_text(status));
    context_.reset(made);
  }

  std::vector<std::int64_t> operator()(const std::vector<float> &pixels) {
    std::int64_t dims[DIGITS_DIMS] = {};
    dims[DIGITS_DIM_BATCH] = static_cast<std::int64_t>(pixels.size() / kPixels);
    std::int64_t bytes = 0;
    check(digits_workspace(context_.get(), dims, &bytes));
    workspace_.resize(static_cast<std::size_t>(bytes) + 1);
    std::vector<std::int64_t> found(pixels.size() / kPixels);
    const void *const inputs[DIGITS_INPUTS] = {pixels.data()};
    void *const outputs[DIGITS_OUTPUTS] = {found.data()};
    check(digits_run(context_.get(), dims, inputs, outputs, workspace_.data(), bytes));
    return found;
  }

 private:
  struct Destroy {
    void operator()(digits_context *context) const { digits_destroy(context); }
  };

  void check(int status) const {
    if (status != GRAPHC_OK) throw std::runtime_error(digits_error(context_.get()));
  }

  std::unique_ptr<digits_context, Destroy> context_;
  std::vector<unsigned char> workspace_;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "usage: classify PIXELS COUNT\n";
    return 2;
  }
  try {
    std::vector<float> pixels(std::strtoul(argv[2], nullptr, 10) * kPixels);
    std::ifstream file(argv[1], std::ios::binary);
    const auto bytes = static_cast<std::streamsize>(pixels.size() * sizeof(float));
    if (!file.read(reinterpret_cast<char *>(pixels.data()), bytes))
      throw std::runtime_error("the file does not hold so many digits");
    Classifier classify;
    for (const std::int64_t digit : classify(pixels)) std::cout << digit << '\n';
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
