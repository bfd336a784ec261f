"""torch.utils.model_zoo: the old address of torch.hub."""

from minitorch.face.names.hub import load_state_dict_from_url

load_url = load_state_dict_from_url
