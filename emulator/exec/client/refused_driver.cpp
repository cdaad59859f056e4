// Every function of the driver that is not there: a program finds it, and is told.

#include "emulator/exec/client/driver.hpp"

// What it takes does not matter: nothing of it is looked at.
#define RF_REFUSED(NAME) \
  RF_API ringfence::exec::client::Error NAME() { return ringfence::exec::client::refuse(#NAME); }
#include "emulator/exec/client/refused_driver.inc"
