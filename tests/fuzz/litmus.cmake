ringfence_fuzz(litmus litmus_reader.cpp ringfence_litmus)
