"""A kind cluster: the `kind` program, the records of our clusters, and their nodes.

engine = await find_engine()
kind = await find_kind(engine)
claim = Claim.make("drahealth-1", engine.identity)
config = compose(None, nodes=1, run_id=claim.run_id)
await kind.create(claim.cluster, node_image("1.37.1"), config, claim.folder / "kubeconfig", on_line=print)
...
await remove(claim, engine, kind)
"""
