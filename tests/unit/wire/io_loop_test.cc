#include "common/wire/io_loop.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

// How many of `waits` waits are let in when each ends as `found` says.
int Spins(SpinGate& gate, int waits, bool found) {
  int spins = 0;
  for (int i = 0; i < waits; ++i) {
    if (!gate.Open()) continue;
    ++spins;
    gate.Spun(found);
  }
  return spins;
}

TEST(SpinGate, WhatDoesNotPayIsTriedRarely) {
  SpinGate gate;
  EXPECT_LE(Spins(gate, 6400, false), 100);
  EXPECT_GE(Spins(gate, 6400, false), 1);
}

TEST(SpinGate, WhatPaysStaysOnAndEndsSoonAfterItDoesNot) {
  SpinGate gate;
  EXPECT_GE(Spins(gate, 1000, true), 900);
  EXPECT_LE(Spins(gate, 1000, false), 30);
}

TEST(SpinGate, EveryOtherEventIsEnoughAndEveryThirdIsNot) {
  SpinGate gate;
  Spins(gate, 1000, true);
  int spins = 0;
  for (int i = 0; i < 3000; ++i) {
    if (!gate.Open()) continue;
    ++spins;
    gate.Spun(i % 3 == 0);
  }
  EXPECT_LE(spins, 300);
}

}  // namespace
}  // namespace cohort
