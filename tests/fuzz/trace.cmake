ringfence_fuzz(trace trace_reader.cpp ringfence_trace)
