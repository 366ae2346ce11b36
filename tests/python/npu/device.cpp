// A device of PyTorch's PrivateUse1, as torch_npu makes one, on the stand-in for CANN's run time (tests/ascend/stand_in.c): memory, streams
// and the current device are the run time's. Operators of PyTorch that are not here run on the CPU, on copies.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/library.h>

namespace
{

constexpr auto NPU = c10::DeviceType::PrivateUse1;
constexpr int CARDS = 8;
// Device memory is the host's at this distance.
constexpr uintptr_t MOVED = uintptr_t(1) << 60;

template <class... Arguments> void acl(const char *name, Arguments... arguments)
{
    static void *const library = dlopen("libascendcl.so", RTLD_NOW);
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    const int error = function(arguments...);
    TORCH_CHECK(error == 0, name, " answers error ", error);
}

int current_card()
{
    int32_t card = 0;
    acl("aclrtGetDevice", &card);
    return card;
}

thread_local void *streams[CARDS];

c10::Stream stream_of(void *stream, int card)
{
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(NPU, static_cast<c10::DeviceIndex>(card)),
                       reinterpret_cast<intptr_t>(stream));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return NPU;
    }
    c10::Device getDevice() const override
    {
        return {NPU, static_cast<c10::DeviceIndex>(current_card())};
    }
    void setDevice(c10::Device device) const override
    {
        acl("aclrtSetDevice", int32_t(device.index()));
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override
    {
        setDevice(device);
    }
    c10::Device exchangeDevice(c10::Device device) const override
    {
        const c10::Device before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Stream getStream(c10::Device device) const override
    {
        return stream_of(streams[device.index()], device.index());
    }
    c10::Stream getDefaultStream(c10::Device device) const override
    {
        return stream_of(nullptr, device.index());
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        void *&current = streams[stream.device_index()], *const before = current;
        current = reinterpret_cast<void *>(static_cast<intptr_t>(stream.id()));
        return stream_of(before, stream.device_index());
    }
    c10::DeviceIndex deviceCount() const noexcept override
    {
        uint32_t count = 0;
        acl("aclrtGetDeviceCount", &count);
        return static_cast<c10::DeviceIndex>(count);
    }
    // (What is launched has ended when the launch returns.)
    void record(void **, const c10::Stream &, const c10::DeviceIndex,
                const c10::EventFlag) const override
    {
    }
    void block(void *, const c10::Stream &) const override
    {
    }
    bool queryEvent(void *) const override
    {
        return true;
    }
    bool queryStream(const c10::Stream &) const override
    {
        return true;
    }
    void synchronizeStream(const c10::Stream &) const override
    {
    }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Allocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        void *memory = nullptr;
        acl("aclrtMalloc", &memory, bytes ? bytes : 1, 0);
        return {memory, memory, [](void *p) { acl("aclrtFree", p); },
                c10::Device(NPU, static_cast<c10::DeviceIndex>(current_card()))};
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        acl("aclrtMemcpy", to, bytes, from, bytes, 3);
    }
};
Allocator allocator;
REGISTER_ALLOCATOR(NPU, &allocator);

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override
    {
        return true;
    }
    bool isAvailable() const override
    {
        return true;
    }
    bool hasPrimaryContext(c10::DeviceIndex) const override
    {
        return true;
    }
};

const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> type,
                 std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>,
                 std::optional<c10::MemoryFormat> format)
{
    const c10::OptionalDeviceGuard guard(device);
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &allocator, keys,
                                     c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                         std::optional<c10::Device> device, std::optional<bool>)
{
    const c10::OptionalDeviceGuard guard(device);
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size),
                                             C10_AS_INTARRAYREF_SLOW(stride), &allocator, keys,
                                             c10::dtype_or_default(type));
}

// The same memory as the host sees it.
at::Tensor on_host(const at::Tensor &tensor)
{
    if (!tensor.is_privateuseone())
        return tensor;
    void *const data =
        reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr()) - MOVED);
    return at::from_blob(tensor.numel() ? data : nullptr, tensor.sizes(), tensor.strides(),
                         tensor.options().device(c10::kCPU));
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool)
{
    on_host(to).copy_(on_host(from));
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to)
{
    TORCH_CHECK(from.sizes() == to.sizes(), "a result is of another size: ", from.sizes(), ", not ",
                to.sizes());
    return copy_from(from, to, false);
}

c10::Scalar number_of(const at::Tensor &tensor)
{
    return on_host(tensor).item();
}

void on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", number_of);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

// (torch_npu lowers PyTorch's own products; here autocast leaves PyTorch's operators alone.)
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFallthrough());
}

} // namespace

extern "C" {

void stand_in_begin(void)
{
    static Hooks hooks;
    acl("aclInit", static_cast<const char *>(nullptr));
    acl("aclrtSetDevice", int32_t(0));
    at::RegisterPrivateUse1HooksInterface(&hooks);
}

void *stand_in_stream(int card)
{
    return streams[card];
}

void stand_in_set_stream(int card, void *stream)
{
    streams[card] = stream;
}
}
