"""A program of names that public code meets now and then: it prints the same under PyTorch and under the torch face."""

import textwrap

from under_both import printed_by_both

PROGRAM = textwrap.dedent(
    """
    import torch, warnings
    warnings.simplefilter("ignore")
    import torch.utils.benchmark as benchmark
    t=benchmark.Timer(stmt="x+x", setup="x=torch.ones(3)", globals={"torch":torch}, label="add", sub_label="x+x", description="ours", num_threads=1)
    a=t.timeit(5); b=t.blocked_autorange(min_run_time=.01); c=t.adaptive_autorange(min_run_time=.01,max_run_time=.1)
    print(type(a).__name__, a.number_per_run, a.median>0, a.mean>0, len(b.times)>0, b.iqr>=0, c.median>0)
    cmp=benchmark.Compare([a]); cmp.trim_significant_figures(); cmp.colorize(); str(cmp)
    from torch.testing import make_tensor
    torch.manual_seed(0)
    for d in (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64):
        print(make_tensor((2,3),dtype=d,device="cpu").flatten()[:3], make_tensor(4,dtype=d,device="cpu",noncontiguous=True).stride())
    print(make_tensor(5,dtype=torch.int32,device="cpu",low=-1,high=2,exclude_zero=True), make_tensor(2,dtype=torch.float32,device="cpu",low=0,high=1,requires_grad=True).requires_grad)
    torch.testing.assert_allclose(torch.ones(2), [1,1.00001])
    from torch.nn.attention.flex_attention import and_masks, or_masks, noop_mask, create_mask
    causal=lambda b,h,q,k: q>=k
    near=lambda b,h,q,k: (q-k).abs()<2
    print(create_mask(and_masks(causal,near),1,1,4,4), create_mask(or_masks(causal,near),1,1,3,3).sum(), create_mask(noop_mask,1,1,2,2))
    print(torch.func.functionalize(lambda x: x.clone().mul_(2))(torch.ones(2)))
    from torch.utils import checkpoint as cp
    print(cp.detach_variable((torch.ones(1,requires_grad=True),3)), [type(c).__name__ for c in cp.noop_context_fn()], issubclass(cp.CheckpointError, RuntimeError), cp.get_device_states(torch.ones(1)))
    with cp.set_checkpoint_early_stop(False): pass
    x=torch.ones(2,requires_grad=True); cp.CheckpointFunction.apply(lambda v: v**2, True, x).sum().backward(); print(x.grad)
    from torch.utils import _pytree as pt
    import collections, time
    P=collections.namedtuple("P","a b")
    print(pt.tree_is_leaf(1), pt.tree_is_leaf([1]), pt.is_namedtuple(P(1,2)), pt.is_namedtuple_class(P), pt.is_namedtuple_instance((1,)), pt.is_structseq(time.localtime()), pt.is_structseq_class(P))
    from torch.utils.weak import WeakTensorKeyDictionary, WeakIdKeyDictionary, TensorWeakRef
    w=WeakTensorKeyDictionary(); y=torch.ones(2); w[y]=3; r=TensorWeakRef(y); print(w[y], len(w), y in w, r() is y, list(w.values())); del y; print(len(w), r())
    print(tuple(torch.linalg.ldl_factor(torch.tensor([[0.,2,1],[2,0,3],[1,3,1]]))))
    A=torch.tensor([[[2.,1],[1,3]],[[4,1],[1,-3]]]); print(torch.linalg.ldl_solve(*torch.linalg.ldl_factor(A), torch.ones(2,2,1)), torch.linalg.ldl_factor_ex(A)[2])
    print(torch.cuda.memory_stats_as_nested_dict() if not torch.cuda.is_available() else {}, torch.cuda.memory_cached(), torch.cuda.get_arch_list(), torch.cuda.get_gencode_flags()=="", torch.cuda.is_tf32_supported(), isinstance(torch.ones(1), torch.cuda.FloatTensor))
    try: torch.cuda.FloatTensor(2)
    except TypeError as e: print("TypeError", str(e)[:41])
    print(torch.get_autocast_gpu_dtype(), torch.get_autocast_cpu_dtype(), torch.is_anomaly_enabled()); torch.clear_autocast_cache()
    torch.set_anomaly_enabled(True); print(torch.is_anomaly_enabled()); torch.set_anomaly_enabled(False); print(torch.is_anomaly_enabled())
    print(torch.int4, torch.uint2, torch.per_tensor_affine, torch.sparse_csc, torch.jagged, torch.chalf, torch.Storage is torch.FloatStorage or torch.Storage.__name__)
    with torch.DisableTorchFunctionSubclass(): pass
    from torch import _VF
    l=torch.nn.GRU(3,4); o,h=_VF.gru(torch.ones(2,1,3), torch.zeros(1,1,4), [p for p in l.parameters()], True, 1, 0.0, True, False, False); print(torch.allclose(o,l(torch.ones(2,1,3))[0]))
    print(torch.backends.mha if False else "", torch.quasirandom.SobolEngine(1).draw(1), torch.masked.sum(torch.ones(3)))
    """
)


def test_rare_names_print_what_pytorch_prints(tmp_path):
    ours, _, theirs = printed_by_both(PROGRAM, tmp_path, "-W", "ignore")
    for mine, other in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        assert mine == other
