// Streams, events, host callbacks, waiting.

#include "emulator/exec/client/connection.hpp"

namespace ringfence::exec::client {
namespace {

std::uint64_t number(Handle h) { return reinterpret_cast<std::uintptr_t>(h); }

Error make(Call call, Handle* out, unsigned flags, int priority) {
  if (out == nullptr) return keep(kInvalidValue);
  const Answer answer =
      ask(call, nullptr, Out().put(std::uint32_t{flags}).put(std::int32_t{priority}));
  In in = answer.in();
  if (answer.status == kSuccess) *out = reinterpret_cast<Handle>(in.get<std::uint64_t>());
  return keep(answer.status);
}

Error record(Handle event, Handle stream) {
  return keep(ask(Call::event_record, stream, Out().put(number(event))).status);
}
Error wait(Handle stream, Handle event) {
  return keep(ask(Call::stream_wait, stream, Out().put(number(event))).status);
}
Error callback(Handle stream, void (*function)(void*), void* argument) {
  return keep(ask(Call::callback, stream,
                  Out()
                      .put(reinterpret_cast<std::uintptr_t>(function))
                      .put(reinterpret_cast<std::uintptr_t>(argument)))
                  .status);
}

struct StreamCallback {
  void (*function)(Handle, Error, void*);
  Handle stream;
  void* argument;
  static void run(void* self) {
    auto* const c = static_cast<StreamCallback*>(self);
    c->function(c->stream, kSuccess, c->argument);
    delete c;
  }
};

}  // namespace

RF_API Error cudaStreamCreate(Handle* out) { return make(Call::stream_create, out, 0, 0); }
RF_API Error cudaStreamCreateWithFlags(Handle* out, unsigned flags) {
  return make(Call::stream_create, out, flags, 0);
}
RF_API Error cudaStreamCreateWithPriority(Handle* out, unsigned flags, int priority) {
  return make(Call::stream_create, out, flags, priority);
}
RF_API Error cudaStreamDestroy(Handle stream) {
  return keep(ask(Call::stream_destroy, stream).status);
}
RF_API Error cudaStreamSynchronize(Handle stream) {
  return keep(ask(Call::stream_sync, stream).status);
}
RF_API Error cudaStreamSynchronize_ptsz(Handle stream) {
  return keep(ask(Call::stream_sync, own(stream)).status);
}
RF_API Error cudaStreamQuery(Handle stream) { return keep(ask(Call::stream_query, stream).status); }
RF_API Error cudaStreamQuery_ptsz(Handle stream) {
  return keep(ask(Call::stream_query, own(stream)).status);
}
RF_API Error cudaStreamWaitEvent(Handle stream, Handle event, unsigned) {
  return wait(stream, event);
}
RF_API Error cudaStreamWaitEvent_ptsz(Handle stream, Handle event, unsigned) {
  return wait(own(stream), event);
}
RF_API Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}
RF_API Error cudaStreamGetFlags(Handle stream, unsigned* out) {
  const Answer answer = ask(Call::stream_facts, stream);
  In in = answer.in();
  in.get<std::uint32_t>();
  *out = in.get<std::uint32_t>();
  return keep(answer.status);
}
RF_API Error cudaStreamGetFlags_ptsz(Handle stream, unsigned* out) {
  return cudaStreamGetFlags(own(stream), out);
}
RF_API Error cudaStreamGetDevice(Handle stream, int* out) {
  const Answer answer = ask(Call::stream_facts, stream);
  In in = answer.in();
  *out = static_cast<int>(in.get<std::uint32_t>());
  return keep(answer.status);
}
RF_API Error cudaStreamGetDevice_ptsz(Handle stream, int* out) {
  return cudaStreamGetDevice(own(stream), out);
}
// Priorities, cache windows, synchronisation policies: what may be faster, and changes nothing.
RF_API Error cudaStreamSetAttribute(Handle, int, const void*) { return kSuccess; }
RF_API Error cudaStreamSetAttribute_ptsz(Handle, int, const void*) { return kSuccess; }
RF_API Error cudaStreamGetPriority(Handle, int* out) { return *out = 0, kSuccess; }
RF_API Error cudaStreamGetPriority_ptsz(Handle, int* out) { return *out = 0, kSuccess; }
RF_API Error cudaStreamIsCapturing(Handle, int* status) { return *status = 0, kSuccess; }
RF_API Error cudaStreamIsCapturing_ptsz(Handle, int* status) { return *status = 0, kSuccess; }

RF_API Error cudaLaunchHostFunc(Handle stream, void (*function)(void*), void* argument) {
  return callback(stream, function, argument);
}
RF_API Error cudaLaunchHostFunc_ptsz(Handle stream, void (*function)(void*), void* argument) {
  return callback(own(stream), function, argument);
}
RF_API Error cudaStreamAddCallback(Handle stream, void (*function)(Handle, Error, void*),
                                   void* argument, unsigned) {
  return callback(stream, StreamCallback::run, new StreamCallback{function, stream, argument});
}
RF_API Error cudaStreamAddCallback_ptsz(Handle stream, void (*function)(Handle, Error, void*),
                                        void* argument, unsigned) {
  return callback(own(stream), StreamCallback::run, new StreamCallback{function, stream, argument});
}

RF_API Error cudaEventCreate(Handle* out) { return make(Call::event_create, out, 0, 0); }
RF_API Error cudaEventCreateWithFlags(Handle* out, unsigned flags) {
  return make(Call::event_create, out, flags, 0);
}
RF_API Error cudaEventDestroy(Handle event) {
  return keep(ask(Call::event_destroy, nullptr, Out().put(number(event))).status);
}
RF_API Error cudaEventRecord(Handle event, Handle stream) { return record(event, stream); }
RF_API Error cudaEventRecord_ptsz(Handle event, Handle stream) {
  return record(event, own(stream));
}
RF_API Error cudaEventRecordWithFlags(Handle event, Handle stream, unsigned) {
  return record(event, stream);
}
RF_API Error cudaEventRecordWithFlags_ptsz(Handle event, Handle stream, unsigned) {
  return record(event, own(stream));
}
RF_API Error cudaEventQuery(Handle event) {
  return keep(ask(Call::event_query, nullptr, Out().put(number(event))).status);
}
RF_API Error cudaEventSynchronize(Handle event) {
  return keep(ask(Call::event_sync, nullptr, Out().put(number(event))).status);
}
RF_API Error cudaEventElapsedTime(float* out, Handle first, Handle second) {
  const Answer answer =
      ask(Call::event_elapsed, nullptr, Out().put(number(first)).put(number(second)));
  In in = answer.in();
  *out = in.get<float>();
  return keep(answer.status);
}

RF_API Error cudaDeviceSynchronize() { return keep(ask(Call::device_sync).status); }

}  // namespace ringfence::exec::client
