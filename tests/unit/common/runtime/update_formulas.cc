#include "tests/unit/common/runtime/update_formulas.h"

#include <algorithm>
#include <cmath>

namespace cohort {

namespace {

// The bias correction, with beta in float32 as in Keras.
double Correction(double beta, double t) {
  return 1 - std::pow(static_cast<double>(static_cast<float>(beta)), t);
}

// v - change, whose parts are at most `parts` in size.
void Subtract(Element& e, double change, double parts) {
  e.scale = std::max(e.scale, std::abs(e.v)) + std::abs(parts);
  e.v -= change;
}

void Sgd(const Step& s, Element& e) {
  const double momentum = s.p.at("momentum");
  if (momentum == 0) return Subtract(e, s.lr * e.g, s.lr * e.g);
  double& m = e.slots[0];
  const bool sums = s.p.at("momentum_of_gradients") != 0;
  const double added = sums ? e.g : -s.lr * e.g;
  const double parts = momentum * std::abs(m) + std::abs(added);
  m = momentum * m + added;
  const double moved = s.p.at("nesterov") != 0 ? momentum * m + added : m;
  const double rate = sums ? s.lr : -1;
  Subtract(e, rate * moved, rate * (parts + std::abs(added)));
}

double Root(const Step& s, double x) {
  const double epsilon = s.p.at("epsilon");
  return s.p.at("epsilon_outside_root") != 0 ? std::sqrt(x) + epsilon : std::sqrt(x + epsilon);
}

void Adagrad(const Step& s, Element& e) {
  e.slots[0] += e.g * e.g;
  const double change = s.lr * e.g / Root(s, e.slots[0]);
  Subtract(e, change, change);
}

void RowwiseAdagrad(const Step& s, Element& e) {
  e.slots[0] += e.row_square;
  const double change = s.lr * e.g / Root(s, e.slots[0]);
  Subtract(e, change, change);
}

void Rmsprop(const Step& s, Element& e) {
  const double rho = s.p.at("rho");
  size_t next = 1;
  double* const m = s.p.at("momentum") > 0 ? &e.slots[next++] : nullptr;
  double* const mean = s.p.at("centered") != 0 ? &e.slots[next] : nullptr;
  double& square = e.slots[0];
  square = rho * square + (1 - rho) * e.g * e.g;
  double variance = square;
  if (mean != nullptr) {
    *mean = rho * *mean + (1 - rho) * e.g;
    variance -= *mean * *mean;
  }
  double change = s.lr * e.g / Root(s, variance);
  // What the difference of square and mean loses.
  const double lost = mean != nullptr ? change * (square / variance) : change;
  double parts = std::abs(lost);
  if (m != nullptr) {
    parts += std::abs(s.p.at("momentum") * *m);
    change += s.p.at("momentum") * *m;
    *m = change;
  }
  Subtract(e, change, parts);
}

void Adam(const Step& s, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double beta_2 = s.p.at("beta_2");
  const double parts = std::max(std::abs(e.slots[0]), std::abs(e.g));
  e.slots[0] += (e.g - e.slots[0]) * (1 - beta_1);
  e.slots[1] += (e.g * e.g - e.slots[1]) * (1 - beta_2);
  double square = e.slots[1];
  if (s.p.at("amsgrad") != 0) square = e.slots[2] = std::max(e.slots[2], square);
  const double rate = s.lr * std::sqrt(Correction(beta_2, s.t)) / Correction(beta_1, s.t) /
                      (std::sqrt(square) + s.p.at("epsilon"));
  Subtract(e, rate * e.slots[0], rate * parts);
}

void Adamax(const Step& s, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double parts = std::max(std::abs(e.slots[0]), std::abs(e.g));
  e.slots[0] += (e.g - e.slots[0]) * (1 - beta_1);
  e.slots[1] = std::max(s.p.at("beta_2") * e.slots[1], std::abs(e.g));
  const double rate = s.lr / Correction(beta_1, s.t) / (e.slots[1] + s.p.at("epsilon"));
  Subtract(e, rate * e.slots[0], rate * parts);
}

void Nadam(const Step& s, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double beta_2 = s.p.at("beta_2");
  const auto momentum = [&](double t) { return beta_1 * (1 - 0.5 * std::pow(0.96, t)); };
  static const std::vector<double> products = [] {
    std::vector<double> result = {1};
    while (result.size() <= kStepMax) {
      const double t = static_cast<double>(result.size());
      result.push_back(result.back() * (1 - 0.5 * std::pow(0.96, t)));
    }
    return result;
  }();
  const double product = std::pow(beta_1, s.t) * products[static_cast<size_t>(s.t)];
  const double parts = std::max(std::abs(e.slots[0]), std::abs(e.g));
  e.slots[0] += (e.g - e.slots[0]) * (1 - beta_1);
  e.slots[1] += (e.g * e.g - e.slots[1]) * (1 - beta_2);
  const double next = momentum(s.t + 1);
  const double of_m = next / (1 - product * next);
  const double of_g = (1 - momentum(s.t)) / (1 - product);
  const double root = std::sqrt(e.slots[1] / Correction(beta_2, s.t)) + s.p.at("epsilon");
  Subtract(e, s.lr * (of_m * e.slots[0] + of_g * e.g) / root, s.lr * (of_m + of_g) * parts / root);
}

void Adadelta(const Step& s, Element& e) {
  const double rho = s.p.at("rho");
  const double epsilon = s.p.at("epsilon");
  e.slots[0] = rho * e.slots[0] + (1 - rho) * e.g * e.g;
  const double delta = e.g * std::sqrt(e.slots[1] + epsilon) / std::sqrt(e.slots[0] + epsilon);
  e.slots[1] = rho * e.slots[1] + (1 - rho) * delta * delta;
  Subtract(e, s.lr * delta, s.lr * delta);
}

void Ftrl(const Step& s, Element& e) {
  const double power = -s.p.at("learning_rate_power");
  const double l1 = s.p.at("l1_regularization_strength");
  const double l2 = s.p.at("l2_regularization_strength") + s.p.at("beta") / (2 * s.lr);
  const double shrunk = e.g + 2 * s.p.at("l2_shrinkage_regularization_strength") * e.v;
  const double sum = e.slots[0] + e.g * e.g;
  const double root = std::pow(sum, power) / s.lr;
  const double sigma = root - std::pow(e.slots[0], power) / s.lr;
  const double parts = std::abs(e.slots[1]) + std::abs(shrunk) + root * std::abs(e.v) + l1;
  e.slots[0] = sum;
  e.slots[1] += shrunk - sigma * e.v;
  const double divisor = root + 2 * l2;
  e.v = (std::clamp(e.slots[1], -l1, l1) - e.slots[1]) / divisor;
  e.scale = std::max(e.scale, parts / divisor);
}

// Moves by rate x, rate fading x, rate fading^2 x, ...
void MissMoves(const Step& s, double times, double rate_x, double fading, Element& e) {
  for (double j = 1; j <= times; ++j) {
    const double move = rate_x * std::pow(fading, j);
    e.v -= e.v * s.p.at("weight_decay") * s.lr;
    Subtract(e, move, move);
  }
}

void FadeMoments(const Step& s, double times, Element& e) {
  e.slots[0] *= std::pow(s.p.at("beta_1"), times);
  e.slots[1] *= std::pow(s.p.at("beta_2"), times);
}

void MissAdam(const Step& s, double times, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double beta_2 = s.p.at("beta_2");
  const bool amsgrad = s.p.at("amsgrad") != 0;
  const double rate = s.lr * std::sqrt(Correction(beta_2, s.t)) / Correction(beta_1, s.t);
  const double root = std::sqrt(e.slots[amsgrad ? 2 : 1]) + s.p.at("epsilon");
  MissMoves(s, times, rate * e.slots[0] / root, amsgrad ? beta_1 : beta_1 / std::sqrt(beta_2), e);
  FadeMoments(s, times, e);
}

void MissAdamax(const Step& s, double times, Element& e) {
  const double rate = s.lr / Correction(s.p.at("beta_1"), s.t);
  MissMoves(s, times, rate * e.slots[0] / (e.slots[1] + s.p.at("epsilon")),
            s.p.at("beta_1") / s.p.at("beta_2"), e);
  FadeMoments(s, times, e);
}

void MissNadam(const Step& s, double times, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double beta_2 = s.p.at("beta_2");
  // What a step without a gradient moves, by Nadam itself.
  Element still = e;
  still.g = 0;
  still.slots[0] /= beta_1;
  still.slots[1] /= beta_2;
  still.v = 0;
  Nadam(s, still);
  MissMoves(s, times, -still.v, beta_1 / std::sqrt(beta_2), e);
  FadeMoments(s, times, e);
}

void MissFtrl(const Step& s, double times, Element& e) {
  const double decay = s.p.at("weight_decay") * s.lr;
  const double l1 = s.p.at("l1_regularization_strength");
  e.g = 0;
  e.v -= e.v * decay;
  Ftrl(s, e);
  const double q = std::pow(e.slots[0], -s.p.at("learning_rate_power")) / s.lr +
                   2 * s.p.at("l2_regularization_strength") + s.p.at("beta") / s.lr;
  const double fades = 2 * s.p.at("l2_shrinkage_regularization_strength") * (1 - decay) / q;
  const double clipped = std::clamp(e.slots[1], -l1, l1);
  for (double j = 2; j <= times; ++j) {
    e.slots[1] = clipped + (e.slots[1] - clipped) * std::max(1 - fades, 0.0);
  }
  e.v = (clipped - e.slots[1]) / q;
}

}  // namespace

// Of the others a missed step is one with a gradient of zeros.
void MissSteps(const RuleFormula& rule, const Step& s, double times, Element& e) {
  const double g = e.g;
  if (rule.missed) {
    rule.missed(s, times, e);
  } else {
    e.g = e.row_square = 0;
    for (double j = 1; j <= times; ++j) {
      e.v -= e.v * s.p.at("weight_decay") * s.lr;
      rule.formula(s, e);
    }
  }
  e.g = g;
}

std::vector<RuleFormula> RuleFormulas() {
  return {{"sgd", Sgd},
          {"adagrad", Adagrad},
          {"rowwise_adagrad", RowwiseAdagrad},
          {"rmsprop", Rmsprop},
          {"adam", Adam, 5, MissAdam},
          {"adamax", Adamax, 5, MissAdamax},
          {"nadam", Nadam, 5, MissNadam},
          {"adadelta", Adadelta},
          {"ftrl", Ftrl, 6, MissFtrl}};
}

}  // namespace cohort
